// Costs of a fused graph from those of the graph that was fused.
//
//   const FusedGraph fused = Fuse(graph);
//   const Result<GraphCosts> costs = FuseCosts(fused, graph_costs);
#pragma once

#include "sim/cost/graph_costs.h"
#include "sim/graph/fuse.h"
#include "sim/result.h"

namespace twinstep {

// A fused task's cost lists its members' as segments; equal lists are one cost. Its own sensitivity
// is the mean of its members' weighted by time, for readers that know no segments. Error
// (kBadInput) where `costs` is of another graph, or a computation has flows.
Result<GraphCosts> FuseCosts(const FusedGraph& fused, const GraphCosts& costs);

}  // namespace twinstep
