#include "sim/search/plan_estimates.h"

#include <algorithm>
#include <utility>

#include "sim/estimate/kuaishou_memory.h"
#include "sim/estimate/layer_activations.h"
#include "sim/estimate/pipeline_bound.h"
#include "sim/format.h"
#include "sim/parallel.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Whether eq 7 at the plan's own ratio fits; the bytes above the budget where it does not.
OffloadNeed CheckBudget(const Model& model, const ResolvedPlan& plan, double budget_bytes,
                        double layer_bytes) {
  OffloadNeed need;
  for (std::int64_t r = 0; r < plan.p; ++r) {
    const double excess = EstimateMemory(model, plan, r, layer_bytes).gpu_bytes() - budget_bytes;
    if (excess > need.short_bytes) {
      need.short_rank = r;
      need.short_bytes = excess;
    }
  }
  return need;
}

Error BudgetError(const OffloadNeed& need, double budget_bytes) {
  return Error{.code = ExitCode::kNo,
               .message = StrCat("weights, gradients, optimizer state and activation blocks of "
                                 "pipeline rank ",
                                 need.short_rank, " (equation 7) take ", Bytes(need.short_bytes),
                                 " more than the budget of ", Bytes(budget_bytes),
                                 ", whatever is offloaded"),
               .rule = "gpu-memory-budget",
               .rank = need.short_rank,
               .pool = "gpu",
               .excess_bytes = static_cast<std::int64_t>(std::min(need.short_bytes, 0x1p62))};
}

}  // namespace

PlanEstimator::FamilyKey PlanEstimator::KeyOf(const ResolvedPlan& x) {
  return {x.gpus,
          x.t,
          x.c,
          x.p,
          x.b,
          x.sequence_length,
          x.sequence_parallel,
          x.tp_overlap,
          x.dp_overlap,
          x.zero_stage,
          x.recompute,
          x.attention,
          x.rank_order};
}

Result<std::vector<PlanEstimate>> PlanEstimator::Estimate(std::vector<ResolvedPlan>* plans) {
  std::vector<Family*> family_of;
  std::vector<Family*> added;
  for (const ResolvedPlan& plan : *plans) {
    const auto [at, is_new] = families_.try_emplace(KeyOf(plan));
    if (is_new) {
      at->second.example = plan;
      added.push_back(&at->second);
    }
    family_of.push_back(&at->second);
  }
  const auto measure = [&](std::size_t i) -> Status {
    Family& family = *added[i];
    const Profile* profile = profile_ ? &*profile_ : nullptr;
    const Framework* framework = input_.framework ? &*input_.framework : nullptr;
    Result<PlanParts> parts =
        MeasureParts(input_.model, input_.cluster, profile, framework, family.example);
    if (!parts.ok()) return parts.error();
    const Result<double> layer_bytes = LayerActivationBytes(input_.model, family.example);
    if (!layer_bytes.ok()) return layer_bytes.error();
    family.parts = std::move(parts).value();
    family.layer_bytes = layer_bytes.value();
    return Unit{};
  };
  const Status measured = ForEachInParallel(added.size(), threads_, measure);
  if (!measured.ok()) return measured.error();
  std::vector<PlanEstimate> estimates(plans->size());
  for (std::size_t i = 0; i < plans->size(); ++i) {
    estimates[i] = EstimateOne(*family_of[i], &(*plans)[i]);
  }
  return estimates;
}

double PlanEstimator::BudgetBytes(const Family& family) const {
  if (input_.gpu_memory_budget_bytes) return static_cast<double>(*input_.gpu_memory_budget_bytes);
  const auto capacity = static_cast<double>(input_.gpu_memory_capacity_bytes);
  const auto other = static_cast<double>(family.parts.other_bytes);
  return capacity * (1 - kPlacementReserve) - other;
}

PlanEstimate PlanEstimator::EstimateOne(const Family& family, ResolvedPlan* plan) const {
  PlanEstimate estimate;
  const PlanParts& parts = family.parts;
  const double layer_bytes = family.layer_bytes;
  estimate.bound_ps = PipelineBound(input_.model, *plan, parts);
  if (input_.solve_offload || input_.gpu_memory_budget_bytes) {
    const double budget = BudgetBytes(family);
    const OffloadNeed need = input_.solve_offload
                                 ? FindOffloadNeed(input_.model, *plan, budget, layer_bytes)
                                 : CheckBudget(input_.model, *plan, budget, layer_bytes);
    if (!need.fits()) {
      estimate.infeasible = BudgetError(need, budget);
      return estimate;
    }
    if (input_.solve_offload) plan->offload_ratio = need.ratio;
    if (input_.rules.kuaishou && plan->offload_ratio > 0 && plan->p < 3) {
      estimate.infeasible =
          Error{.code = ExitCode::kNo,
                .message = StrCat("p = ", plan->p,
                                  ": fits with offload only, and the paper offloads "
                                  "with p >= 3"),
                .rule = "kuaishou-pipeline"};
      return estimate;
    }
  }
  const Result<KuaishouTime> time =
      EstimateTime(input_.model, *plan, parts.primitives, layer_bytes);
  if (time.ok()) {
    estimate.closed_form = time.value();
    estimate.expected_s = time.value().total_s();
  } else {
    estimate.infeasible = time.error();
  }
  return estimate;
}

}  // namespace twinstep
