// The options that say how a model is trained and how an iteration is spread, which several verbs
// have.
//
//   groups = {..., RecipeOptions(), PlanOptions("data-parallel size d")};
//   Status plan = ApplyPlanOptions(options, &plan);        // Flags override the plan's file.
//   Status recipe = ApplyRecipeOptions(options, model.mutable_recipe());
#pragma once

#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/options/options.h"
#include "sim/plan/plan.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// --seq, --global-batch, --micro-batch.
std::vector<OptionSpec> BatchOptions();
// --attention, --recompute.
std::vector<OptionSpec> ActivationOptions();
// --precision, --clip-norm, --dropout, --attention-dropout.
OptionGroup RecipeOptions();
// --plan, --tp, --schedule, ...; what --dp means to the verb is its own to say.
OptionGroup PlanOptions(const char* data_parallel_help);

Status ApplyRecipeOptions(const Options& options, Recipe* recipe);

// Begins with --preset, adds the file of --plan, then applies the flags of PlanOptions,
// BatchOptions, ActivationOptions and ChunkOptions.
Status ReadPlanOptions(const Options& options, Plan* plan, PlanRules* rules);

}  // namespace twinstep
