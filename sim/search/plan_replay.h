// One plan replayed for a search: folded and fused, so that it is quick, and to the picosecond what
// `simulate` finds.
//
//   const Result<PlanReplay> replay = ReplayPlan(input, plan, {.slowest_ps = best_ps});
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "sim/cost/graph_costs.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"
#include "sim/simulate/simulate_input.h"

namespace twinstep {

struct PlanReplay {
  Picoseconds iteration_ps = 0;
  // Of plans that are not slower than asked for, else not looked at: whether the memory suffices,
  // and how much is needed.
  bool memory_known = false;
  std::optional<Error> infeasible;
  std::int64_t peak_gpu_bytes = 0;   // Of the fullest rank.
  std::int64_t peak_host_bytes = 0;  // Of the fullest node.
};

struct ReplayLimits {
  // Memory is planned only where the iteration is not slower.
  Picoseconds slowest_ps = std::numeric_limits<Picoseconds>::max();
};

// A plan that runs into a deadlock is `infeasible`, too. Error: a constant that the cluster lacks.
Result<PlanReplay> ReplayPlan(const SimulateInput& input, const ResolvedPlan& plan,
                              const ReplayLimits& limits = {});

}  // namespace twinstep
