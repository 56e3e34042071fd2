// The options of `twinstep rank`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"
#include "sim/search/chunk_space.h"
#include "sim/search/maximum.h"
#include "sim/search/plan_space.h"
#include "sim/simulate/simulate_input.h"

namespace twinstep {

struct RankProblem {
  SimulateInput input;                    // What all plans share.
  PlanAxes axes;                          // What is tried of pipelines,
  ChunkAxes chunk_axes;                   // and of chunks.
  bool pipelines = true, chunks = false;  // Which of them.
  std::vector<std::int64_t> gpus;         // Increasing.
  // Instead of the model's layers, or of a batch, the most that fits. Without a batch: a sequence a
  // GPU for layers.
  Maximize maximize = Maximize::kNothing;
  double gap = 0;
  std::size_t keep = 0;
  int threads = 1;
  double time_limit_s = 0;
  std::int64_t shard = 1, shards = 1;
  std::string space;  // The options that say what is searched, as given.

  bool HasBatch() const { return !axes.global_batch.empty() || input.plan.global_batch() > 0; }
};

Result<Options> ParseRankOptions(const std::vector<std::string>& arguments);
Result<RankProblem> ReadRankProblem(const Options& options);

// "4,8", "32..256", "32..256:8": increasing numbers without repetition. At most kMaxListed.
inline constexpr std::size_t kMaxListed = 100'000;
Result<std::vector<std::int64_t>> ParseIntegers(const std::string& text);

// The text of --help.
std::string RankHelp();

}  // namespace twinstep
