// The plans that `rank` searches, of one number of GPUs.
//
//   const Candidates found = FindCandidates(problem, /*gpus=*/8, &estimator).value();
//   search.Run(found.space.plans, found.estimates, nullptr);
#pragma once

#include <cstdint>
#include <vector>

#include "sim/result.h"
#include "sim/search/plan_estimates.h"
#include "sim/search/plan_space.h"
#include "sim/search/rank_options.h"

namespace twinstep {

// Plans and what is known of them.
struct Candidates {
  PlanSpace space;
  std::vector<PlanEstimate> estimates;
};

// Of both spaces, where both are searched; of them the shard's: every N-th, so that parts are
// alike. `estimator` is of problem.input.
Result<Candidates> FindCandidates(const RankProblem& problem, std::int64_t gpus,
                                  PlanEstimator* estimator);

}  // namespace twinstep
