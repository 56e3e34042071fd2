#include "tests/exec/runtime/varied_plans.h"

#include <gtest/gtest.h>

#include "tests/exec/runtime/small_models.h"

namespace twinstep {

std::vector<NamedPlan> VariedPlans() {
  std::vector<NamedPlan> plans;
  plans.push_back({"plain", "llama-gqa", SmallPlan(1, 1, 1, 1)});
  plans.push_back({"all", "gpt", SmallPlan(2, 2, 2, 2)});
  Plan offload = SmallPlan(1, 1, 4, 2);
  offload.set_offload_ratio(0.6);
  offload.set_zero_stage(3);
  plans.push_back({"offload zero3", "llama-tied", offload});
  Plan chunked = SmallPlan(2, 1, 2, 1);
  chunked.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
  chunked.set_virtual_stages(2);
  chunked.set_recompute(RECOMPUTE_BALANCED);
  chunked.set_offload_ratio(1.0);
  plans.push_back({"chunked interleaved offload", "llama", chunked});
  Plan zero2 = SmallPlan(1, 2, 1, 2);
  zero2.set_zero_stage(2);
  zero2.set_data_parallel_overlap(true);
  plans.push_back({"zero2 overlap", "gpt-untied", zero2});
  return plans;
}

std::uint64_t HashAfter(const NamedPlan& plan, RunOptions options, int steps) {
  options.mixing = true;
  TrainingRun run(SmallModel(plan.model, FP32), plan.plan, options);
  const Status done = run.Train(steps);
  EXPECT_TRUE(done.ok()) << plan.name << ": " << (done.ok() ? "" : done.error().message);
  return done.ok() ? run.HashOfStates() : 0;
}

}  // namespace twinstep
