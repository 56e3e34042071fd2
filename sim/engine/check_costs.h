// Whether engines can compute with the costs of a graph.
//
//   if (Status status = CheckCosts(costs); !status.ok()) return status.error();
#pragma once

#include "sim/cost/graph_costs.h"
#include "sim/result.h"

namespace twinstep {

// Error (kBadInput) where a time, rate, share or index cannot be used, naming cost, flow or link.
Status CheckCosts(const GraphCosts& costs);

}  // namespace twinstep
