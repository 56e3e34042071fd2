#include "exec/runtime/issue_order.h"

#include <array>
#include <optional>
#include <random>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

Error Deadlock(const TaskGraph& graph, const std::vector<TaskId>& next) {
  Error error{.code = ExitCode::kInternal, .rule = "deadlock"};
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    const TaskId id = next[rank];
    if (id == graph.rank_begin[rank + 1]) continue;
    error.rank = graph.ranks[rank].global_rank;
    error.message = StrCat("deadlock: rank ", error.rank, ", lane ", Name(graph.tasks[id].lane),
                           ": task ", id, " (", graph.TaskName(id), ") waits in rendezvous ",
                           graph.tasks[id].rendezvous, " for ranks that wait elsewhere");
    break;
  }
  return error;
}

}  // namespace

IssueOrder::IssueOrder(const Program& program) : program_(&program) {
  const TaskGraph& graph = *program.graph;
  predecessor_count_.assign(graph.tasks.size(), 0);
  next_in_lane_.assign(graph.tasks.size(), kNone);
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    std::array<TaskId, kLaneCount> tail;
    tail.fill(kNone);
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      TaskId& last = tail[static_cast<std::size_t>(graph.tasks[id].lane)];
      if (last != kNone) {
        next_in_lane_[last] = id;
        ++predecessor_count_[NodeOf(id)];
      }
      last = id;
      for (const TaskId next : graph.Successors(id)) ++predecessor_count_[NodeOf(next)];
    }
  }
  open_.resize(graph.tasks.size());
  order_.reserve(graph.tasks.size());
  ready_.reserve(graph.tasks.size());
}

TaskId IssueOrder::NodeOf(TaskId id) const {
  const RendezvousId rendezvous = program_->graph->tasks[id].rendezvous;
  return rendezvous == kNone ? id : program_->members[program_->member_begin[rendezvous]];
}

Result<IssueOrder> IssueOrder::Make(const Program& program) {
  IssueOrder result(program);
  const TaskGraph& graph = *program.graph;
  std::vector<TaskId> next(graph.rank_begin.begin(), graph.rank_begin.end() - 1);
  std::vector<std::uint32_t> arrived(graph.rendezvous.size(), 0);
  std::vector<bool> waiting(graph.ranks.size(), false);
  std::size_t issued = 0;
  while (issued < graph.tasks.size()) {
    const std::size_t before = issued;
    for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
      if (waiting[rank] || next[rank] == graph.rank_begin[rank + 1]) continue;
      const TaskId id = next[rank];
      const RendezvousId rendezvous = graph.tasks[id].rendezvous;
      if (rendezvous == kNone) {
        result.order_.push_back(id);
        ++next[rank];
        ++issued;
        continue;
      }
      waiting[rank] = true;
      ++issued;  // It has arrived: that is progress, too.
      if (++arrived[rendezvous] < graph.rendezvous[rendezvous].participants) continue;
      const std::span<const TaskId> members = program.Members(rendezvous);
      result.order_.push_back(members[0]);
      for (const TaskId member : members) {
        waiting[graph.tasks[member].rank] = false;
        ++next[graph.tasks[member].rank];
      }
    }
    if (issued == before) return Deadlock(graph, next);
  }
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    if (next[rank] != graph.rank_begin[rank + 1]) return Deadlock(graph, next);
  }
  return result;
}

std::size_t IssueOrder::Shuffle(std::uint64_t seed) {
  const TaskGraph& graph = *program_->graph;
  std::mt19937_64 random(seed);
  open_ = predecessor_count_;
  order_.clear();
  ready_.clear();
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (NodeOf(id) == id && open_[id] == 0) ready_.push_back(id);
  }
  const auto release = [this](TaskId id) {
    const TaskId node = NodeOf(id);
    if (--open_[node] == 0) ready_.push_back(node);
  };
  while (!ready_.empty()) {
    std::swap(ready_[random() % ready_.size()], ready_.back());
    const TaskId node = ready_.back();
    ready_.pop_back();
    order_.push_back(node);
    const RendezvousId rendezvous = graph.tasks[node].rendezvous;
    const std::span<const TaskId> tasks =
        rendezvous == kNone ? std::span<const TaskId>(&node, 1) : program_->Members(rendezvous);
    for (const TaskId id : tasks) {
      for (const TaskId next : graph.Successors(id)) release(next);
      if (next_in_lane_[id] != kNone) release(next_in_lane_[id]);
    }
  }
  return order_.size();
}

}  // namespace twinstep
