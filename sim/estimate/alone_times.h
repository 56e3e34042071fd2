// How long tasks of a graph take when nothing runs beside them but their own class: what closed
// forms take as primitives. Links are shared by the ranks that a represented rank stands for, which
// do the same at the same time; interference between lanes is left out.
//
//   const AloneTimes alone(graph, costs);  // Both must outlive it.
//   alone.Seconds(task);
//   alone.PathSeconds(rank, [&](const Task& task) { return task.block == 3 && ...; });
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

class AloneTimes {
 public:
  AloneTimes(const TaskGraph& graph, const GraphCosts& costs) : graph_(graph), costs_(costs) {}

  // Fixed time and the longest of the task's flows.
  double Seconds(TaskId id) const { return FixedSeconds(id) + FlowSeconds(id, 1); }
  // The same while an equal flow crosses what both directions of PCIe share.
  double BothWaysSeconds(TaskId id) const { return FixedSeconds(id) + FlowSeconds(id, 2); }

  // Longest way through those tasks of a rank that `in` names, along edges and lanes, where all
  // others take no time: the time of a layer whose computation and collectives overlap in part.
  template <typename Predicate>
  double PathSeconds(RankId rank, const Predicate& in) const;

  // Sum over those tasks.
  template <typename Predicate>
  double SumSeconds(RankId rank, const Predicate& in) const {
    double sum = 0;
    for (TaskId id = graph_.rank_begin[rank]; id < graph_.rank_begin[rank + 1]; ++id) {
      if (in(graph_.tasks[id])) sum += Seconds(id);
    }
    return sum;
  }

 private:
  double FixedSeconds(TaskId id) const {
    return static_cast<double>(costs_.Of(id).fixed_ps) / kPicosecondsPerSecond;
  }
  // Flows over the two directions' shared links count `ways` times.
  double FlowSeconds(TaskId id, double ways) const;

  const TaskGraph& graph_;
  const GraphCosts& costs_;
};

template <typename Predicate>
double AloneTimes::PathSeconds(RankId rank, const Predicate& in) const {
  const TaskId begin = graph_.rank_begin[rank];
  const TaskId end = graph_.rank_begin[rank + 1];
  std::vector<double> start_s(end - begin);
  double longest_s = 0;
  for (TaskId id = begin; id < end; ++id) {  // Issue order is a topological order.
    const double end_s = start_s[id - begin] + (in(graph_.tasks[id]) ? Seconds(id) : 0);
    if (end_s > longest_s) longest_s = end_s;
    for (const TaskId next : graph_.Successors(id)) {
      if (next >= end || next < begin) continue;
      if (start_s[next - begin] < end_s) start_s[next - begin] = end_s;
    }
  }
  return longest_s;
}

}  // namespace twinstep
