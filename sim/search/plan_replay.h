// Time and memory of one plan for a search: the same numbers as `simulate` has, and quicker.
//
//   const PlanTime time = TimePlan(input, plan).value();        // Folded and fused.
//   const PlanMemory memory = PlacePlan(input, plan).value();   // Looked at where time matters.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/cost/graph_costs.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"
#include "sim/simulate/simulate_input.h"

namespace twinstep {

struct PlanTime {
  Picoseconds iteration_ps = 0;
  std::optional<Error> infeasible;  // It cannot be lowered, or runs into a deadlock.
};

struct PlanMemory {
  std::int64_t peak_gpu_bytes = 0;     // Of the fullest rank.
  std::int64_t peak_host_bytes = 0;    // Of the fullest node,
  std::int64_t peak_pinned_bytes = 0;  // and what of it is pinned.
  std::optional<Error> infeasible;     // It exceeds a limit of `input`.
};

// Errors: kBadInput, a constant that the cluster lacks.
Result<PlanTime> TimePlan(const SimulateInput& input, const ResolvedPlan& plan);
Result<PlanMemory> PlacePlan(const SimulateInput& input, const ResolvedPlan& plan);

}  // namespace twinstep
