// Models, plans and published rows of the two papers, as the tests of the closed forms need them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
inline constexpr double kBudget65000MiB = 65000.0 * 1024.0 * 1024.0;  // Threshold of the paper.
inline constexpr double kH800Flops = 989e12;

// A model of the zoo, with the vocabulary that the paper's scripts pass.
Model PaperModel(const std::string& name, std::int64_t vocab_size = 32004);

// (t, c, p, l) of the paper on `gpus` H800 with one sequence a micro-batch.
ResolvedPlan PaperPlan(const Model& model, std::int64_t gpus, std::int64_t sequence_length,
                       std::int64_t global_batch, std::int64_t t, std::int64_t c, std::int64_t p,
                       std::int64_t l, Recompute recompute);

// A row of figure 9 (measured tokens/s) or of the text that names an offload ratio.
struct PaperRow {
  std::string model;
  std::int64_t sequence_length, gpus, global_batch, t, c, p, l;
  Recompute recompute;
  double alpha;
  double tokens_per_s;  // 0 where not published.
  double mfu_percent;   // Likewise.
};
const std::vector<PaperRow>& Figure9();

}  // namespace twinstep
