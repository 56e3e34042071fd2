// Replay where flows share links or compute and communication slow each other down: a
// discrete-event simulation over flat arrays.
#pragma once

#include "sim/engine/cost_table.h"
#include "sim/engine/engine.h"
#include "sim/engine/topology.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// Answers any graph; an Error of rule "deadlock" where tasks remain and nothing runs.
Result<Replay> ReplayEvents(const TaskGraph& graph, const GraphCosts& costs, const CostTable& table,
                            const Topology& topology);

}  // namespace twinstep
