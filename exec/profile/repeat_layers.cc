#include "exec/profile/repeat_layers.h"

#include <array>
#include <map>
#include <utility>
#include <vector>

namespace twinstep {
namespace {

// Tasks [begin, end) of one rank, one after the other in issue order, that repeat together.
struct Pass {
  TaskId begin = 0, end = 0;
  std::int64_t times = 1;
};

class Repetition {
 public:
  Repetition(const TaskGraph& graph, std::int64_t layers, const Repeats& repeats)
      : from_(graph), layers_(layers), repeats_(repeats), to_(graph) {}

  TaskGraph Run() && {
    to_.tasks.clear();
    to_.rank_begin = {0};
    first_.resize(from_.TaskCount());
    last_.resize(from_.TaskCount());
    for (RankId rank = 0; rank < from_.ranks.size(); ++rank) {
      for (const Pass& pass : PassesOf(rank)) Append(pass);
      to_.rank_begin.push_back(to_.TaskCount());
    }
    for (TaskId id = 0; id < from_.TaskCount(); ++id) {
      for (const TaskId next : from_.Successors(id)) {
        // Inside a pass each repetition has its own.
        if (pass_[id] != pass_[next]) edges_.emplace_back(last_[id], first_[next]);
      }
    }
    to_.edges = FreezeEdges(to_.TaskCount(), edges_);
    return std::move(to_);
  }

 private:
  bool IsOfLayer(const Task& task) const { return task.block != kNoTag && task.block < layers_; }
  std::int64_t TimesOf(const Task& task) const {
    return (IsOfLayer(task) ? repeats_.layers : 1) *
           (task.phase == Phase::kOptimizer ? repeats_.optimizer : 1);
  }
  bool IsSamePass(const Task& a, const Task& b) const {
    // What is recomputed stands between the backward's tasks.
    const auto direction = [](Phase phase) {
      return phase == Phase::kRecompute ? Phase::kBackward : phase;
    };
    return IsOfLayer(a) == IsOfLayer(b) && a.micro_batch == b.micro_batch &&
           direction(a.phase) == direction(b.phase);
  }

  std::vector<Pass> PassesOf(RankId rank) const {
    std::vector<Pass> passes;
    for (TaskId id = from_.rank_begin[rank]; id < from_.rank_begin[rank + 1]; ++id) {
      const Task& task = from_.tasks[id];
      if (passes.empty() || !IsSamePass(from_.tasks[id - 1], task)) {
        passes.push_back({.begin = id, .end = id, .times = TimesOf(task)});
      }
      passes.back().end = id + 1;
    }
    return passes;
  }

  void Append(const Pass& pass) {
    std::array<TaskId, kLaneCount> lane_last{};  // Of the repetition before.
    lane_last.fill(kNone);
    ++passes_;
    pass_.resize(pass.end, passes_);
    for (std::int64_t k = 0; k < pass.times; ++k) {
      const TaskId begin = to_.TaskCount();
      std::array<TaskId, kLaneCount> lane_first{}, lane_now{};
      lane_first.fill(kNone);
      lane_now.fill(kNone);
      for (TaskId id = pass.begin; id < pass.end; ++id) {
        Task task = from_.tasks[id];
        if (task.rendezvous != kNone && k > 0) task.rendezvous = RendezvousOf(task.rendezvous, k);
        const TaskId now = to_.TaskCount();
        to_.tasks.push_back(task);
        if (k == 0) first_[id] = now;
        last_[id] = now;
        const auto lane = static_cast<std::size_t>(task.lane);
        if (lane_first[lane] == kNone) lane_first[lane] = now;
        lane_now[lane] = now;
        for (const TaskId next : from_.Successors(id)) {
          if (next < pass.end && next > id) edges_.emplace_back(now, begin + (next - pass.begin));
        }
      }
      for (const TaskId last : lane_last) {
        for (const TaskId first : lane_first) {
          if (last != kNone && first != kNone) edges_.emplace_back(last, first);
        }
      }
      lane_last = lane_now;
    }
  }

  // The same one for all members.
  RendezvousId RendezvousOf(RendezvousId id, std::int64_t repetition) {
    const auto [at, is_new] =
        rendezvous_.try_emplace({id, repetition}, static_cast<RendezvousId>(to_.rendezvous.size()));
    if (is_new) to_.rendezvous.push_back(from_.rendezvous[id]);
    return at->second;
  }

  const TaskGraph& from_;
  const std::int64_t layers_;
  const Repeats repeats_;
  TaskGraph to_;
  std::vector<TaskId> first_, last_;  // By task of from_: its first and last repetition.
  std::vector<int> pass_;             // By task of from_.
  int passes_ = 0;
  std::vector<std::pair<TaskId, TaskId>> edges_;
  std::map<std::pair<RendezvousId, std::int64_t>, RendezvousId> rendezvous_;
};

}  // namespace

TaskGraph RepeatLayers(const TaskGraph& graph, std::int64_t layers, const Repeats& repeats) {
  return Repetition(graph, layers, repeats).Run();
}

}  // namespace twinstep
