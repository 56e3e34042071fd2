// A long iteration repeats itself: the plan with as few micro-batches as still have every primitive
// of it is measured in a fraction of the time.
//
//   Result<LoweredPlan> lowered = LowerForRun(model, cluster, plan);
//   if (EstimateSerialSeconds(lowered.value().graph) > 1) {
//     LoweredPlan shorter = WithFewestMicroBatches(std::move(lowered).value(), cluster);
//   }
#pragma once

#include "exec/profile/plan_run.h"
#include "hw_specs/cluster.pb.h"

namespace twinstep {

// What an iteration takes on one thread, very roughly: its matrix products on an ordinary core.
double EstimateSerialSeconds(const TaskGraph& graph);

// `lowered` itself where no smaller number of micro-batches has the same primitives. The shorter
// graph is to be measured, not trained with: it reduces as many losses as `lowered`.
LoweredPlan WithFewestMicroBatches(LoweredPlan lowered, const Cluster& cluster);

}  // namespace twinstep
