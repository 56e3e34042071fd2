// A time that no replay of a pipeline plan can beat, without lowering the plan: proven, so that a
// search may leave out what it exceeds.
//
//   const Picoseconds least = PipelineBound(model, plan, parts);  // MeasureParts of the plan.
//
// Every term is a path in the plan's graph. On each pipeline rank: parameters arrive; the first
// micro-batch reaches the rank through those before it; the rank's passes follow each other in its
// compute lane, tensor- and context-parallel communication that they wait for included; the last
// gradient travels back to the first rank; gradients are reduced, clipped by the norm of all ranks
// and applied. Another path is that of equations 12-14 of Yuan et al. with every message: the first
// micro-batch through all stages to the last one, that rank's passes, and the last micro-batch's
// gradients back through all stages. The bound is the longest. Copies, stalls in the steady state,
// shared links and interference only add to it.
#pragma once

#include "model_zoo/model.pb.h"
#include "sim/estimate/plan_parts.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {

// Of a plan without chunks and without choices for single blocks; `parts` of the same model,
// cluster and plan.
Picoseconds PipelineBound(const Model& model, const ResolvedPlan& plan, const PlanParts& parts);

}  // namespace twinstep
