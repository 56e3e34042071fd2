// The primitives of Kuaishou's performance model (T_F, T_B, T_ckpt, T_p2p, ...: what the paper
// measures on a few GPUs) from a lowered graph and its costs.
//
//   const KuaishouPrimitives primitives = MeasurePrimitives(graph, costs, model, plan);
//   EstimateTime(model, plan, primitives);
#pragma once

#include "model_zoo/model.pb.h"
#include "sim/cost/graph_costs.h"
#include "sim/estimate/kuaishou_time.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {

// `graph` is `plan` lowered, folded or not. Times are those of tasks alone (alone_times.h); the
// slow-downs beta are the cluster's interference factors, weighted by how far each operator of a
// layer suffers.
KuaishouPrimitives MeasurePrimitives(const TaskGraph& graph, const GraphCosts& costs,
                                     const Model& model, const ResolvedPlan& plan);

}  // namespace twinstep
