// Two traces of one task graph, event by event.
//
//   Result<TaskPairs> pairs = MatchTasks(simulated, executed);
//   for (std::size_t task = 0; task < pairs.value().a.size(); ++task) {
//     simulated.end_ps(pairs.value().a[task]) ... executed.end_ps(pairs.value().b[task])
//   }
#pragma once

#include <string>
#include <vector>

#include "sim/result.h"
#include "traces/trace.pb.h"

namespace twinstep {

// By task id: the index of its event in each trace.
struct TaskPairs {
  std::vector<int> a, b;
};

// An Error (kBadInput) where the traces are not of the same graph. It says in what they differ, and
// names the lowest task that is not the same in rank, lane, kind, phase, operator, tags or bytes;
// or which trace cannot be used and why (a task twice, times outside of the iteration).
Result<TaskPairs> MatchTasks(const Trace& a, const Trace& b);

// "r3 compute gemm_forward mb2 stage1 block5", as TaskGraph::TaskName has it.
std::string EventName(const Trace& trace, int event);

}  // namespace twinstep
