// --gpu-memory-budget: the limit of equation 7's classes (weights, gradients, optimizer state and
// activation blocks), and the offload ratio that meets it.
#pragma once

#include "sim/plan/resolved_plan.h"
#include "sim/result.h"
#include "sim/simulate/simulate_input.h"

namespace twinstep {

// `plan`, with the ratio solved for --offload-ratio auto. An Error (kNo, rule "gpu-memory-budget")
// says by how many bytes the budget is exceeded. Expects input.gpu_memory_budget_bytes.
Result<ResolvedPlan> ApplyMemoryBudget(const SimulateInput& input, ResolvedPlan plan);

}  // namespace twinstep
