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

// The plan with few layers, as LowerFewLayers lowers it.
struct FewLayersOptions {
  // Two or more: the first writes gradients, the others accumulate.
  std::int64_t micro_batches = 2;
  // Of a rank's products in an iteration: as long as it has no more of them, the micro-batches are
  // as many as the plan's (at most kMostMicroBatches), and the layers run as often as the plan's
  // stages have layers (repeat_layers.h). 0: once.
  double most_flops = 0;
};
inline constexpr std::int64_t kMostMicroBatches = 4;

// Embedding, layers and head: as many layers as have six times the head's weights, at least
// kFewestLayers, at most half of the model's. The plan's micro-batch, sequence, attention and
// recomputation, on its tensor, context and data ranks, whose communication runs beside no
// operator. Fewer layers where these do not fit the cluster's GPU; an Error (kNo) where one does
// not.
Result<LoweredPlan> LowerFewLayers(const Model& model, const Cluster& cluster,
                                   const ResolvedPlan& plan, const FewLayersOptions& options = {});

// Of one rank, of products alone.
double FlopsOfRank(const TaskGraph& graph);

}  // namespace twinstep
