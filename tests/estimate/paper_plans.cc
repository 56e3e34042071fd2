#include "tests/estimate/paper_plans.h"

#include <gtest/gtest.h>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"

namespace twinstep {

Model PaperModel(const std::string& name, std::int64_t vocab_size) {
  const auto found = FindModel(name);
  EXPECT_TRUE(found.ok()) << found.error().message;
  Model model = found.value();
  model.set_vocab_size(vocab_size);
  return model;
}

ResolvedPlan PaperPlan(const Model& model, std::int64_t gpus, std::int64_t sequence_length,
                       std::int64_t global_batch, std::int64_t t, std::int64_t c, std::int64_t p,
                       std::int64_t l, Recompute recompute) {
  Plan plan;
  plan.set_tensor_parallel(t);
  plan.set_context_parallel(c);
  plan.set_pipeline_parallel(p);
  plan.set_layers_per_stage(l);
  plan.set_global_batch(global_batch);
  plan.set_sequence_length(sequence_length);
  plan.set_recompute(recompute);
  const auto resolved =
      ResolvePlan(model, FindCluster("h800").value(), plan, gpus, {.kuaishou = true});
  EXPECT_TRUE(resolved.ok()) << resolved.error().message;
  return resolved.value();
}

const std::vector<PaperRow>& Figure9() {
  constexpr Recompute kNone = RECOMPUTE_NONE, kOurs = RECOMPUTE_BALANCED;
  static const std::vector<PaperRow> rows = {
      {"llama-175b", 4096, 256, 256, 2, 2, 16, 1, kNone, 0.522, 97577, 41.4},
      {"llama-175b", 4096, 160, 240, 4, 1, 8, 2, kOurs, 0.334, 59169, 40.2},
      {"llama-175b", 4096, 120, 270, 4, 1, 6, 2, kOurs, 0.851, 45761, 41.5},
      {"llama-175b", 4096, 48, 264, 4, 1, 12, 1, kOurs, 0.999, 20685, 46.8},
      {"llama-65b", 4096, 200, 250, 4, 1, 5, 4, kNone, 0.000, 179819, 36.9},
      {"llama-65b", 4096, 128, 256, 2, 1, 8, 2, kOurs, 0.000, 132357, 42.5},
      {"llama-65b", 4096, 96, 240, 2, 1, 8, 2, kOurs, 0.035, 96758, 41.4},
      {"llama-65b", 4096, 56, 252, 2, 1, 4, 2, kOurs, 0.945, 52219, 38.3},
      {"llama-65b", 4096, 32, 272, 2, 1, 8, 2, kOurs, 0.544, 36740, 47.2},
      {"llama2-70b", 8192, 224, 252, 2, 4, 4, 4, kOurs, 0.352, 192634, 38.7},
      {"llama2-70b", 8192, 160, 260, 2, 4, 10, 2, kNone, 0.000, 148456, 41.7},
      {"llama2-70b", 8192, 120, 270, 2, 2, 5, 2, kOurs, 0.460, 114817, 43.0},
      {"llama2-70b", 8192, 80, 260, 2, 2, 10, 2, kOurs, 0.024, 78698, 44.2},
      {"llama2-70b", 8192, 40, 260, 2, 1, 10, 2, kOurs, 0.713, 41182, 46.3}};
  return rows;
}

}  // namespace twinstep
