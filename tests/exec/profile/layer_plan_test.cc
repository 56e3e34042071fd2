#include "exec/profile/layer_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/exec/profile/small_gpus.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

TEST(LayerPlan, FewerLayersWhereTheyDoNotFit) {
  Model model = SmallModel("llama", FP32);
  model.set_layers(8);
  Cluster cluster = SmallGpus();
  const ResolvedPlan plan = ResolvePlan(model, cluster, SmallPlan(1, 1, 1, 1), 1).value();
  const Result<LoweredPlan> all = LowerFewLayers(model, cluster, plan);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all.value().model.layers(), kFewestLayers);
  const std::int64_t bytes = all.value().arena.arena_bytes[0][0];
  cluster.mutable_gpu()->set_memory_bytes(bytes);
  EXPECT_EQ(LowerFewLayers(model, cluster, plan).value().model.layers(), kFewestLayers - 1);
  cluster.mutable_gpu()->set_memory_bytes(bytes / 100);
  const Result<LoweredPlan> none = LowerFewLayers(model, cluster, plan);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().rule, "gpu-memory");
  EXPECT_GT(none.error().excess_bytes, 0);
}

// As long as the products allow, an iteration has the model's layers and the plan's micro-batches.
TEST(LayerPlan, LayersRunAsOftenAsTheModelHasThem) {
  Model model = SmallModel("llama", FP32);
  model.set_layers(12);
  const Cluster cluster = SmallGpus();
  Plan plan = SmallPlan(1, 1, 1, 1);
  const auto lower = [&](double most_flops) {
    const ResolvedPlan resolved = ResolvePlan(model, cluster, plan, 1).value();
    return LowerFewLayers(model, cluster, resolved, {.most_flops = most_flops}).value();
  };
  const auto adams = [](const LoweredPlan& lowered) {
    return std::ranges::count_if(lowered.graph.tasks, [&](const Task& task) {
      return lowered.graph.shapes[task.shape].op == OpCode::kAdam;
    });
  };
  plan.set_micro_batch(1);
  plan.set_global_batch(8);
  const LoweredPlan once = lower(0);
  const double flops = FlopsOfRank(once.graph);
  ASSERT_EQ(once.model.layers(), kFewestLayers);
  EXPECT_EQ(once.plan.m, 2);
  EXPECT_EQ(FlopsOfRank(lower(1.5 * flops).graph), flops);
  EXPECT_EQ(lower(1.5 * flops).plan.m, 2);
  const LoweredPlan whole = lower(1e3 * flops);
  EXPECT_EQ(whole.plan.m, 4);
  // Twice the micro-batches, and three times the layers.
  EXPECT_GT(FlopsOfRank(whole.graph), 5 * flops);
  EXPECT_LT(FlopsOfRank(whole.graph), 6 * flops);
  EXPECT_EQ(adams(whole), 3 * kFewestLayers + 2);
  // Steps of the optimizer as often a micro-batch as in the plan.
  plan.set_global_batch(1);
  EXPECT_EQ(adams(lower(1e3 * flops)), 2 * (3 * kFewestLayers + 2));
}

}  // namespace
}  // namespace twinstep
