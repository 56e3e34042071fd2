// Legal orders of a graph's starts and ends, as a dispatcher might come up with: a task starts
// after all its predecessors have ended, and any number of tasks run at once. Ranks do not wait for
// each other, so more is legal than in a real run.
//
//   for (const DispatchStep& step : RandomDispatch(graph, /*seed=*/7)) ...
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

struct DispatchStep {
  TaskId task = kNone;
  bool is_end = false;
};

// Random among the legal; each seed also prefers some lanes over others.
std::vector<DispatchStep> RandomDispatch(const TaskGraph& graph, std::uint64_t seed);

// The order that keeps most buffers alive: everything starts as early as it can, while sends and
// copies to the host end only when nothing else can go on.
std::vector<DispatchStep> HoardingDispatch(const TaskGraph& graph);

}  // namespace twinstep
