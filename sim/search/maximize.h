// The largest model, or the largest batch, that some plan of a space can train (ProTrain's
// table 2).
//
//   const Maximum most = FindMaximum(problem, /*gpus=*/4, /*progress=*/nullptr).value();
//   const RankProblem largest = AtMaximum(problem, most.value, 4);  // To be ranked.
//
// Layers: more than all memory together can hold the states of are out, by arithmetic; of the rest
// the first, from above, whose plan fits is the answer, so every larger one is known not to fit.
// Batch: with each sequence every activation grows, so bisection finds the largest.
#pragma once

#include <cstdint>

#include "sim/report/progress.h"
#include "sim/result.h"
#include "sim/search/maximum.h"
#include "sim/search/rank_options.h"

namespace twinstep {

// Larger models are not tried.
inline constexpr std::int64_t kMostLayers = 1000;

// `progress` may be null. Error (kBadInput): as FindCandidates and PlacePlan.
Result<Maximum> FindMaximum(const RankProblem& problem, std::int64_t gpus, Progress* progress);

// The problem with a model of so many layers, or with so many sequences a GPU.
RankProblem AtMaximum(const RankProblem& problem, std::int64_t value, std::int64_t gpus);

}  // namespace twinstep
