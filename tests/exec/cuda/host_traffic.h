// What the link between host and GPU and the host's memory can do, and what of it a plan's copies
// and CPU Adam reach where they stand in an iteration.
//
//   PrintHostTraffic(graph, run.LastExecution());  // After the run has freed its memory.
#pragma once

#include "exec/runtime/executor.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// Nothing if the graph copies nothing. Measures the link with copies as large as the graph's
// largest, in each direction alone and in both at once, and STREAM's triad with a thread a core.
void PrintHostTraffic(const TaskGraph& graph, const Execution& execution);

}  // namespace twinstep
