#include "exec/profile/merge_graphs.h"

#include <algorithm>
#include <utility>

namespace twinstep {
namespace {

// An operation takes longer beside operators; then the GPU computes for as long without it.
constexpr double kTimesApart = 2;

// A graph without tasks and edges that has the tables of two, those of `graph` first.
class Merged {
 public:
  Merged(const TaskGraph& added, const TaskGraph& graph)
      : added_(added),
        graph_(graph),
        buffers_(static_cast<BufferId>(graph.buffers.size())),
        shapes_(static_cast<ShapeId>(graph.shapes.size())),
        slices_(static_cast<SliceId>(graph.slices.size() - 1)),
        operands_(static_cast<std::uint32_t>(graph.operands.size())),
        groups_(static_cast<GroupId>(graph.groups.size())),
        to_(graph),
        moved_(graph.tasks.size()) {
    to_.buffers.insert(to_.buffers.end(), added.buffers.begin(), added.buffers.end());
    to_.shapes.insert(to_.shapes.end(), added.shapes.begin(), added.shapes.end());
    // Slice 0 is every graph's.
    to_.slices.insert(to_.slices.end(), added.slices.begin() + 1, added.slices.end());
    for (Operand x : added.operands) {
      x.buffer += buffers_;
      if (x.slice != 0) x.slice += slices_;
      to_.operands.push_back(x);
    }
    to_.groups.insert(to_.groups.end(), added.groups.begin(), added.groups.end());
    to_.tasks.clear();
    to_.rank_begin = {0};
  }

  // The added graph's, once more.
  RendezvousId AddRendezvous(RendezvousId of_added) {
    Rendezvous rendezvous = added_.rendezvous[of_added];
    rendezvous.group += groups_;
    to_.rendezvous.push_back(rendezvous);
    return static_cast<RendezvousId>(to_.rendezvous.size() - 1);
  }

  TaskId AddOwn(TaskId id) {
    moved_[id] = to_.TaskCount();
    to_.tasks.push_back(graph_.tasks[id]);
    return moved_[id];
  }
  TaskId AddOther(TaskId id, RendezvousId rendezvous) {
    Task task = added_.tasks[id];
    task.shape += shapes_;
    task.operand_begin += operands_;
    task.rendezvous = rendezvous;
    to_.tasks.push_back(task);
    return to_.TaskCount() - 1;
  }
  void EndRank() { to_.rank_begin.push_back(to_.TaskCount()); }

  // With the graph's own edges and those.
  TaskGraph Finish(std::vector<std::pair<TaskId, TaskId>> edges) && {
    edges.reserve(edges.size() + graph_.EdgeCount());
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      for (const TaskId next : graph_.Successors(id)) edges.emplace_back(moved_[id], moved_[next]);
    }
    to_.edges = FreezeEdges(to_.TaskCount(), edges);
    return std::move(to_);
  }

 private:
  const TaskGraph& added_;
  const TaskGraph& graph_;
  const BufferId buffers_;
  const ShapeId shapes_;
  const SliceId slices_;
  const std::uint32_t operands_;
  const GroupId groups_;
  TaskGraph to_;
  std::vector<TaskId> moved_;  // Where the tasks of `graph` are now.
};

// COMPUTE tasks of the rank that has fewest.
std::uint32_t LeastComputed(const TaskGraph& graph) {
  std::vector<std::uint32_t> computed(graph.ranks.size(), 0);
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kCompute) ++computed[task.rank];
  }
  return computed.empty() ? 0 : *std::ranges::min_element(computed);
}

}  // namespace

TaskGraph Beside(const TaskGraph& first, const TaskGraph& graph) {
  Merged both(first, graph);
  std::vector<RendezvousId> rendezvous;
  for (RendezvousId id = 0; id < first.rendezvous.size(); ++id) {
    rendezvous.push_back(both.AddRendezvous(id));
  }
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    for (TaskId id = first.rank_begin[rank]; id < first.rank_begin[rank + 1]; ++id) {
      const RendezvousId meets = first.tasks[id].rendezvous;
      both.AddOther(id, meets == kNone ? kNone : rendezvous[meets]);
    }
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) both.AddOwn(id);
    both.EndRank();
  }
  return std::move(both).Finish({});
}

TaskGraph Interleaved(const TaskGraph& operations, const TaskGraph& graph,
                      std::span<const Placement> placements) {
  const std::uint32_t computed_by_all = LeastComputed(graph);
  while (!placements.empty() && placements.back().behind > computed_by_all) {
    placements = placements.first(placements.size() - 1);
  }
  Merged both(operations, graph);
  std::vector<RendezvousId> rendezvous;  // By placement.
  for (const Placement& placement : placements) {
    rendezvous.push_back(both.AddRendezvous(placement.operation));
  }
  std::vector<std::pair<TaskId, TaskId>> edges;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    std::vector<TaskId> member(operations.rendezvous.size(), kNone);  // By rendezvous.
    for (TaskId id = operations.rank_begin[rank]; id < operations.rank_begin[rank + 1]; ++id) {
      member[operations.tasks[id].rendezvous] = id;
    }
    std::size_t next = 0;
    std::uint32_t computed = 0;
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      const TaskId added = both.AddOwn(id);
      if (graph.tasks[id].kind != TaskKind::kCompute) continue;
      ++computed;
      for (; next < placements.size() && placements[next].behind == computed; ++next) {
        edges.emplace_back(added,
                           both.AddOther(member[placements[next].operation], rendezvous[next]));
      }
    }
    both.EndRank();
  }
  return std::move(both).Finish(std::move(edges));
}

std::vector<Placement> PlaceApart(std::span<const ComputeTime> operators,
                                  std::span<const double> operation_s) {
  std::vector<Placement> placements;
  if (operation_s.empty()) return placements;
  double now_s = 0, free_s = 0;
  for (std::size_t i = 0; i + 1 < operators.size(); ++i) {
    now_s += operators[i].seconds;
    if (now_s < free_s || operators[i].is_one_with_next) continue;
    const std::size_t operation = placements.size() % operation_s.size();
    placements.push_back({.operation = static_cast<RendezvousId>(operation),
                          .behind = static_cast<std::uint32_t>(i + 1)});
    free_s = now_s + operators[i + 1].seconds + kTimesApart * operation_s[operation];
  }
  return placements;
}

}  // namespace twinstep
