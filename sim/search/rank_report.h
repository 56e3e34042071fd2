// What a search has found, as data: for text, tables, files, and to be merged with the parts that
// other machines have searched.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/estimate/kuaishou_time.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"
#include "sim/search/maximum.h"
#include "sim/search/plan_search.h"
#include "sim/search/plan_space.h"
#include "sim/simulate/simulate_input.h"
#include "traces/breakdown.h"

namespace twinstep {

using BreakdownSeconds = std::array<double, kTimeClassCount>;

// One plan.
struct RankRow {
  ResolvedPlan plan;
  Fate fate = Fate::kLeftOut;
  double bound_s = 0;
  double expected_s = 0;     // The closed form's iteration,
  KuaishouTime closed_form;  // and its terms, of pipelines.
  std::optional<double> iteration_s;
  std::optional<double> mfu;
  std::optional<std::int64_t> peak_gpu_bytes, peak_host_bytes, peak_pinned_bytes;
  std::optional<BreakdownSeconds> breakdown;  // Of ranked plans; mean of the ranks.
  std::vector<std::string> warnings;          // Of ranked plans: where their costs are guessed.
  std::string rule, message;                  // Where it is infeasible;
  std::int64_t excess_bytes = 0;              // by how much.

  double TokensPerSecond() const;  // 0 where no time is known.
};

// Plans that were not replayed.
struct Unreplayed {
  std::int64_t plans = 0;
  double least_cost_s = std::numeric_limits<double>::infinity();  // Least bound, a sequence.
};

// One number of GPUs.
struct RankPoint {
  std::int64_t gpus = 0;
  std::optional<Maximum> maximum = {};              // Of --maximize; the plans below are for it.
  std::map<std::string, Excluded> invalid = {};     // Plans that a rule excludes, by rule.
  std::map<std::string, Excluded> infeasible = {};  // Valid ones that memory excludes, likewise.
  Unreplayed bounded = {};                          // None of them can be better than the best.
  Unreplayed left_out = {};                         // The time was over.
  std::int64_t replays = 0;
  std::int64_t plans = 0;  // Valid ones.
  double certified_gap = 0;
  bool time_was_over = false;
  std::vector<RankRow> ranking = {};  // Best first.
  std::vector<RankRow> all = {};      // In the order of the closed form; only where asked for.
  // Plain data-parallel scaling of the best plan of the fewest GPUs: what the GPUs that it can use
  // achieve. Only in a sweep of GPUs.
  std::int64_t data_parallel_gpus = 0;
  double data_parallel_tokens_per_s = 0;
};

struct Ranking {
  std::string model, cluster, memory;  // Echo, a line each.
  std::string space;                   // What was searched,
  std::string kept;                    // and what was not, as nobody asked: "micro-batch 1".
  std::string fingerprint;             // Equal for the parts of one search.
  std::int64_t sequence_length = 0;
  double gap = 0;
  std::size_t keep = 0;
  std::int64_t shard = 1, shards = 1;  // This part of so many.
  std::vector<RankPoint> points;       // By GPUs.

  bool AnyFeasible() const;
};

// What a search has found. Ranked plans get their breakdown, for which they are replayed again.
// `all`: with a row for each valid plan.
Result<RankPoint> MakePoint(const SimulateInput& input, std::int64_t gpus, const PlanSpace& space,
                            const SearchResult& result, int threads, bool all);

// Parts of one search as one. An Error (kBadInput) names the part that is missing, given twice, or
// of another search.
Result<Ranking> Merge(std::vector<Ranking> parts);

}  // namespace twinstep
