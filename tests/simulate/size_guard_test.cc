#include "sim/simulate/size_guard.h"

#include <gtest/gtest.h>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

// Above what is lowered, and not far above it.
void ExpectCovers(const Plan& plan, std::int64_t gpus) {
  const Result<Model> model = FindModel("tiny-llama");
  const Result<Cluster> cluster = FindCluster("4xa100");
  ASSERT_TRUE(model.ok() && cluster.ok());
  const Result<ResolvedPlan> resolved = ResolvePlan(model.value(), cluster.value(), plan, gpus);
  ASSERT_TRUE(resolved.ok()) << resolved.error().message;
  const Result<TaskGraph> graph = Lower(model.value(), cluster.value(), resolved.value());
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const double tasks = static_cast<double>(graph.value().TaskCount());
  const double estimate = EstimateTasks(resolved.value(), graph.value().ranks.size());
  EXPECT_GE(estimate, tasks) << plan.ShortDebugString();
  EXPECT_LE(estimate, 4 * tasks) << plan.ShortDebugString();
}

TEST(SizeGuardTest, TheEstimateIsAnUpperOneAndNotFarOff) {
  Plan plan;
  plan.set_global_batch(64);
  ExpectCovers(plan, 1);
  plan.set_recompute(RECOMPUTE_FULL);
  ExpectCovers(plan, 1);
  plan.set_pipeline_parallel(2);
  plan.set_virtual_stages(2);
  plan.set_offload_ratio(0.5);
  ExpectCovers(plan, 2);
  plan.set_tensor_parallel(2);
  ExpectCovers(plan, 4);
  plan.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
  ExpectCovers(plan, 4);
  plan.set_global_batch(4);  // Few micro-batches: the optimizer counts.
  plan.set_zero_stage(3);
  ExpectCovers(plan, 4);
}

TEST(SizeGuardTest, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(CheckSize(1e6, 400'000'000).ok());
  const Status status = CheckSize(2.5e6, 999'999'999);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ExitCode::kBadInput);
  EXPECT_EQ(status.error().message.find("the iteration has up to about 2 million tasks, and at "
                                        "about 400 bytes each their simulation takes 953.7 MiB: "
                                        "more than the 953.7 MiB of memory"),
            0u)
      << status.error().message;
  EXPECT_TRUE(CheckSize(1e30, std::nullopt).ok());
  EXPECT_FALSE(CheckSize(1e30, std::int64_t{1} << 62).ok());
}

TEST(SizeGuardTest, KnowsTheMemoryOfThisMachine) {
  const std::optional<std::int64_t> bytes = AvailableMemoryBytes();
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, 1 << 20);
}

}  // namespace
}  // namespace twinstep
