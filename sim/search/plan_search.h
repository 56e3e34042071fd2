// The best of many plans, with proof.
//
//   PlanSearch search(input, {.gap = 0, .threads = 2});
//   const SearchResult result = search.Run(space, nullptr).value();
//   result.ranking[0];                       // The best plan.
//   result.certified_gap;                    // It is at most so far from the optimum.
//
// Closed forms order the plans; a plan whose proven bound is no better than the best replayed plan
// is left out; the others are replayed, a batch at a time. Batches have a fixed size and each
// begins with what the batches before it have found, so the answer does not depend on the number
// of threads. With gap 0 the best plan is the one that replaying every plan would find.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/report/progress.h"
#include "sim/search/plan_estimates.h"
#include "sim/search/plan_replay.h"
#include "sim/search/plan_space.h"

namespace twinstep {

// What became of a plan.
enum class Fate {
  kReplayed,    // Feasible; time and memory are known.
  kSlower,      // Replayed, slower than the best ones; whether it fits in memory was not looked at.
  kInfeasible,  // Said by a closed form or a replay's memory.
  kBounded,     // No replay can beat the best.
  kLeftOut,     // The time was over.
};

struct RankedPlan {
  ResolvedPlan plan;
  PlanEstimate estimate;
  Fate fate = Fate::kLeftOut;
  std::optional<Picoseconds> iteration_ps;
  std::optional<PlanMemory> memory;
  // Why it is infeasible, if that is its fate.
  std::optional<Error> infeasible;

  // What is compared: picoseconds a sequence. Infinite where no time is known.
  double Cost() const;
  double BoundCost() const;
};

struct SearchOptions {
  double gap = 0.001;    // 0: the best is proven.
  std::size_t keep = 5;  // How many of the best are ranked.
  int threads = 1;
  double time_limit_s = 0;  // 0: none.
  // Steps of progress that were done before, and that the search takes.
  std::size_t progress_base = 0, progress_steps = 1000;
};

struct SearchResult {
  std::vector<RankedPlan> plans;  // In the order of the closed form.
  std::vector<std::size_t>
      ranking;  // Indices of feasible replayed plans, best first, at most `keep`.
  // (best - least possible) / best: 0 = proven.
  double certified_gap = 0;
  bool time_was_over = false;
  std::int64_t replays = 0;
};

// So many plans are replayed side by side, after two smaller batches that find a good plan first,
// and of so many memory is looked at.
inline constexpr std::size_t kSearchBatch = 8;
inline constexpr std::size_t kMemoryBatch = 2;

class PlanSearch {
 public:
  // `input` must outlive the search.
  PlanSearch(const SimulateInput& input, const SearchOptions& options)
      : input_(input), options_(options), estimator_(input, options.threads) {}

  // `progress` may be null. An Error is bad input, not an answer of no: with
  // no feasible plan the ranking is empty.
  Result<SearchResult> Run(const PlanSpace& space, Progress* progress);
  // Of plans whose estimates are known.
  Result<SearchResult> Run(std::vector<ResolvedPlan> plans, std::vector<PlanEstimate> estimates,
                           Progress* progress);

 private:
  const SimulateInput& input_;
  const SearchOptions options_;
  PlanEstimator estimator_;
};

}  // namespace twinstep
