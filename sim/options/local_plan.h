// Plans whose ranks all run on this machine, as trainings, profiles and validations have them: the
// plan's sizes say how many ranks there are.
//
//   groups = {..., LocalPlanOptions()};
//   Cluster cluster;                                       // Gets one node of t c p d ranks.
//   Result<ResolvedPlan> plan = ReadLocalPlan(options, model, &cluster);
#pragma once

#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/options/options.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// PlanOptions, --dp, ActivationOptions and --offload-ratio.
OptionGroup LocalPlanOptions();

// Reads and resolves the plan for `cluster`, of which nodes and GPUs become one node with the
// plan's ranks. An Error names the option or the file, line and field; an infeasible plan is one
// of kNo.
Result<ResolvedPlan> ReadLocalPlan(const Options& options, const Model& model, Cluster* cluster);

}  // namespace twinstep
