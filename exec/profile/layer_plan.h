// A few layers of a model, as one pipeline stage: what each operation of a plan takes shows there,
// whatever the plan does with layers and memory.
//
//   Result<LoweredPlan> layers = LowerFewLayers(model, cluster, plan);
#pragma once

#include <cstdint>

#include "exec/profile/plan_run.h"
#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

inline constexpr std::int64_t kFewestLayers = 4;

// Embedding, layers and head: as many layers as have six times the head's weights, at least
// kFewestLayers, at most half of the model's. Two micro-batches or more (the first writes
// gradients, the others accumulate) with the plan's micro-batch, sequence, attention and
// recomputation, on its tensor, context and data ranks, whose communication runs beside no
// operator. Fewer layers where these do not fit the cluster's GPU; an Error (kNo) where one does
// not.
Result<LoweredPlan> LowerFewLayers(const Model& model, const Cluster& cluster,
                                   const ResolvedPlan& plan, std::int64_t micro_batches = 2);

}  // namespace twinstep
