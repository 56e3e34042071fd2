#include "sim/search/checkpoint_front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/search/pareto_command.h"

namespace twinstep {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

CheckpointFront FrontOf(const char* model, std::int64_t t) {
  SimulateInput input;
  input.model = FindModel(model).value();
  input.cluster = FindCluster("h800").value();
  Plan plan;
  plan.set_tensor_parallel(t);
  plan.set_global_batch(1);
  plan.set_sequence_length(8192);
  const ResolvedPlan resolved = ResolvePlan(input.model, input.cluster, plan, t).value();
  return FindCheckpointFront(input, resolved).value();
}

// The paper's balanced set is found, not written down: both norms' outputs, SiLU and product.
TEST(CheckpointFrontTest, KneeOfLlamaIsTheBalancedSet) {
  for (const char* model : {"llama-65b", "llama2-70b", "llama-175b"}) {
    const CheckpointFront front = FrontOf(model, 4);
    EXPECT_THAT(front.sets[front.knee].dropped,
                UnorderedElementsAre("norm1_out", "norm2_out", "silu", "mlp_act"))
        << model;
    // 1.5 % of forward and backward in the paper.
    EXPECT_LT(front.sets[front.knee].recompute_s, 0.025 * front.forward_backward_s) << model;
    EXPECT_FALSE(front.FullIsOnFront()) << model;
    EXPECT_EQ(front.tried, 1024u);
  }
}

TEST(CheckpointFrontTest, MemoryFallsAndTimeRisesAlongTheFront) {
  const CheckpointFront front = FrontOf("llama-7b", 1);
  ASSERT_GT(front.sets.size(), 3u);
  EXPECT_EQ(front.sets.front().recompute_s, 0);
  for (std::size_t i = 1; i < front.sets.size(); ++i) {
    EXPECT_LT(front.sets[i].bytes, front.sets[i - 1].bytes);
    EXPECT_GT(front.sets[i].recompute_s, front.sets[i - 1].recompute_s);
  }
}

TEST(ParetoCommandTest, PrintsTheFront) {
  std::ostringstream out, err;
  EXPECT_EQ(RunParetoCommand({"--model", "llama-7b", "--cluster", "h800", "--tp", "2"}, out, err),
            ExitCode::kDone)
      << err.str();
  EXPECT_THAT(out.str(), HasSubstr("knee"));
  EXPECT_THAT(out.str(), HasSubstr("is off the front"));
  EXPECT_EQ(RunParetoCommand({"--model", "llama-7b"}, out, err), ExitCode::kBadInput);
  EXPECT_THAT(err.str(), HasSubstr("--cluster is missing"));
}

}  // namespace
}  // namespace twinstep
