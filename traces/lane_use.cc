#include "traces/lane_use.h"

#include <cstddef>
#include <utility>

#include "traces/interval_set.h"
#include "traces/task_trace.h"

namespace twinstep {

std::vector<RankLanes> UseOfLanes(const TaskGraph& graph, const Replay& replay) {
  std::vector<RankLanes> result(graph.ranks.size());
  for (std::size_t rank = 0; rank < result.size(); ++rank) {
    std::array<std::vector<Interval>, kLaneCount> busy;
    std::vector<Interval> computing;
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      const Task& task = graph.tasks[id];
      const auto lane = static_cast<std::size_t>(task.lane);
      LaneUse& use = result[rank][lane];
      ++use.tasks;
      use.bytes += PayloadBytes(graph, id);
      use.waiting_ps += replay.start_ps[id] - replay.ready_ps[id];
      const Interval when{replay.start_ps[id], replay.end_ps[id]};
      busy[lane].push_back(when);
      if (task.kind == TaskKind::kCompute) computing.push_back(when);
    }
    const IntervalSet compute(std::move(computing));
    for (std::size_t lane = 0; lane < busy.size(); ++lane) {
      const IntervalSet own(std::move(busy[lane]));
      result[rank][lane].busy_ps = own.Length();
      result[rank][lane].exposed_ps = own.Length() - own.Overlap(compute);
    }
  }
  return result;
}

}  // namespace twinstep
