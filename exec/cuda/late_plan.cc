#include "exec/cuda/late_plan.h"

#include <algorithm>
#include <vector>

namespace twinstep::cuda {
namespace {

bool IsCopyOrHostTask(const TaskGraph& graph, const Task& task) {
  return task.kind == TaskKind::kHost || IsCopy(graph.shapes[task.shape].op);
}

}  // namespace

LateLanes::Sizes PlanLateLanes(const Program& program, RankRange own,
                               std::span<const std::size_t> thread_of_rank) {
  const TaskGraph& graph = *program.graph;
  const std::size_t lanes = graph.ranks.size() * std::size_t{kLaneCount};
  LateLanes::Sizes sizes{.lane_commands = std::vector<std::size_t>(lanes, 0),
                         .thread_of_lane = std::vector<std::size_t>(lanes, 0),
                         .events = program.event_count};
  std::vector<bool> has_others(lanes, false);
  for (std::size_t rank = own.first; rank < own.end; ++rank) {
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      const Task& task = graph.tasks[id];
      const std::size_t lane = rank * std::size_t{kLaneCount} + static_cast<std::size_t>(task.lane);
      // Tasks of a rendezvous are launched together.
      if (!IsCopyOrHostTask(graph, task) || task.rendezvous != kNone) has_others[lane] = true;
      sizes.thread_of_lane[lane] = thread_of_rank[rank];
      sizes.lane_commands[lane] +=
          program.Waits(id).size() + 1 + (program.event[id] != kNone ? 1 : 0);
    }
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (has_others[lane]) sizes.lane_commands[lane] = 0;
  }
  return sizes;
}

bool RendezvousWaitForCopies(const TaskGraph& graph) {
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    if (!IsCopyOrHostTask(graph, graph.tasks[id])) continue;
    const auto next = graph.Successors(id);
    if (std::any_of(next.begin(), next.end(),
                    [&](TaskId to) { return graph.tasks[to].rendezvous != kNone; })) {
      return true;
    }
  }
  return false;
}

}  // namespace twinstep::cuda
