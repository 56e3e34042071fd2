#include "exec/cuda/late_plan.h"

#include <vector>

namespace twinstep::cuda {

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
      const bool may_be = task.kind == TaskKind::kHost || IsCopy(graph.shapes[task.shape].op);
      // Tasks of a rendezvous are launched together.
      if (!may_be || task.rendezvous != kNone) has_others[lane] = true;
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

}  // namespace twinstep::cuda
