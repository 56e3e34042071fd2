#include "sim/simulate/offload_budget.h"

#include <cmath>
#include <utility>

#include "sim/estimate/kuaishou_memory.h"
#include "sim/format.h"
#include "sim/plan/placement.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// At the plan's own ratio, on every pipeline rank.
Status CheckBudget(const Model& model, const ResolvedPlan& plan, double budget_bytes) {
  for (std::int64_t r = 0; r < plan.p; ++r) {
    const Result<KuaishouMemory> memory = EstimateMemory(model, plan, r);
    if (!memory.ok()) return memory.error();
    const double excess = memory.value().gpu_bytes() - budget_bytes;
    if (excess <= 0) continue;
    return Error{.code = ExitCode::kNo,
                 .message = StrCat("weights, gradients, optimizer state and activation blocks of ",
                                   "pipeline rank ", r, " take ", Bytes(memory.value().gpu_bytes()),
                                   " (equation 7): ", Bytes(excess), " more than the budget of ",
                                   Bytes(budget_bytes)),
                 .rule = "gpu-memory-budget",
                 .rank = r,
                 .pool = "gpu",
                 .excess_bytes = static_cast<std::int64_t>(std::ceil(excess))};
  }
  return Unit{};
}

// The closed forms know pipeline ranks: the first global rank of one stands for it.
Error WithGlobalRank(Error error, const SimulateInput& input, const ResolvedPlan& plan) {
  if (error.rank >= 0) {
    const Placement placement(plan, input.cluster.node().gpus());
    error.rank = placement.RankOf({.pp = error.rank});
  }
  return error;
}

}  // namespace

Result<ResolvedPlan> ApplyMemoryBudget(const SimulateInput& input, ResolvedPlan plan) {
  if (plan.chunks.enabled || !plan.blocks.empty()) {
    return Error{.message =
                     "--gpu-memory-budget: equation 7 knows neither chunks nor choices of blocks; "
                     "--gpu-memory-capacity limits what every plan needs"};
  }
  const double budget_bytes = static_cast<double>(*input.gpu_memory_budget_bytes);
  if (input.solve_offload) {
    const Result<double> ratio = SolveOffloadRatio(input.model, plan, budget_bytes);
    if (!ratio.ok()) return WithGlobalRank(ratio.error(), input, plan);
    plan.offload_ratio = ratio.value();
    return plan;
  }
  const Status fits = CheckBudget(input.model, plan, budget_bytes);
  if (!fits.ok()) return WithGlobalRank(fits.error(), input, plan);
  return plan;
}

}  // namespace twinstep
