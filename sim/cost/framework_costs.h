// Costs of a task graph as a training framework runs it.
#pragma once

#include "hw_specs/frameworks/framework.pb.h"
#include "sim/cost/graph_costs.h"

namespace twinstep {

// As ComputeCosts; `framework` may be null: every operation is one fused kernel. Where a profile
// has measured an operation, that stands.
Result<GraphCosts> ComputeFrameworkCosts(const TaskGraph& graph, const Model& model,
                                         const Cluster& cluster, const Profile* profile,
                                         const Framework* framework);

}  // namespace twinstep
