// Replay where nothing shares and nothing interferes: every duration is known beforehand, so the
// replay is a longest path, found in one pass over a topological order, and no event queue.
#pragma once

#include "sim/engine/cost_table.h"
#include "sim/engine/engine.h"
#include "sim/engine/topology.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// Expects a cost table without shared flows and interference. An Error of rule "deadlock" where
// predecessors or rendezvous wait for each other in a circle.
Result<Replay> ReplayLongestPath(const TaskGraph& graph, const GraphCosts& costs,
                                 const CostTable& table, const Topology& topology);

}  // namespace twinstep
