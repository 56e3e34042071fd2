// An executed iteration as a Trace with the graph's task ids.
#pragma once

#include <string>

#include "exec/runtime/executor.h"
#include "sim/graph/task_graph.h"
#include "traces/trace.pb.h"

namespace twinstep {

// Events sorted by rank, start and task; live bytes of each rank's pools over time. `name` says
// what was run.
Trace BuildExecutionTrace(const TaskGraph& graph, const Execution& execution,
                          const std::string& name);

}  // namespace twinstep
