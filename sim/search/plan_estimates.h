// What is known of plans before any is lowered: the offload ratio that the memory budget asks for,
// the closed form's time, which orders plans, and bounds of time and memory, which prune them.
//
//   PlanEstimator estimator(input, threads);
//   const std::vector<PlanEstimate> estimates = estimator.Estimate(&plans).value();
//
// Plans that differ only in stages, micro-batches and offload share their parts (plan_parts.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hw_specs/profile.pb.h"
#include "sim/cost/profile_pairs.h"
#include "sim/estimate/kuaishou_time.h"
#include "sim/estimate/plan_parts.h"
#include "sim/plan/resolved_plan.h"
#include "sim/simulate/simulate_input.h"

namespace twinstep {

// Of the capacity: what the placement of buffers may waste, where no budget of the user's says more
// (an estimate: the arena stays within 1.05 of what lives; a replay decides).
inline constexpr double kPlacementReserve = 0.02;

struct PlanEstimate {
  // Why the plan is impossible: its rule is "gpu-memory-budget", "gpu-memory", ...
  std::optional<Error> infeasible;
  double expected_s = 0;     // The closed form's iteration,
  KuaishouTime closed_form;  // and its terms, of pipelines.
  Picoseconds bound_ps = 0;  // No replay is faster.
};

class PlanEstimator {
 public:
  // `input` must outlive the estimator.
  PlanEstimator(const SimulateInput& input, int threads) : input_(input), threads_(threads) {
    if (input.profile) profile_ = CheapestParts(*input.profile);
  }

  // Solves each plan's offload ratio, if input.solve_offload, and estimates it. The first error
  // (kBadInput: a constant that the cluster lacks) in plan order.
  Result<std::vector<PlanEstimate>> Estimate(std::vector<ResolvedPlan>* plans);

 private:
  // What parts depend on.
  using FamilyKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                               std::int64_t, bool, int, bool, int, int, int, std::string>;
  static FamilyKey KeyOf(const ResolvedPlan& plan);
  // What plans that share their parts have in common.
  struct Family {
    ResolvedPlan example;
    PlanParts parts;
    double layer_bytes = 0;
  };

  PlanEstimate EstimateOne(const Family& family, ResolvedPlan* plan) const;
  // Of equation 7: the user's, or what a GPU has left beside what equation 7 leaves out.
  double BudgetBytes(const Family& family) const;

  const SimulateInput& input_;
  std::optional<Profile> profile_;  // Bounds'.
  const int threads_;
  std::map<FamilyKey, Family> families_;
};

}  // namespace twinstep
