// The executor's loss curves in double precision against those of an independent implementation:
// tests/reference/generate_loss_curves.py, in NumPy.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "exec/cpu/cpu_backend.h"
#include "exec/runtime/batch.h"
#include "exec/runtime/executor.h"
#include "exec/runtime/initialize.h"
#include "exec/runtime/learning_rate.h"
#include "model_zoo/find_model.h"
#include "sim/graph/arena.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {
namespace {

// As in the generator.
constexpr std::int64_t kSteps = 20, kSequences = 4, kPositions = 32;
constexpr std::uint64_t kSeed = 11;
constexpr LearningRateSchedule kSchedule{
    .peak = 3e-3, .minimum = 3e-4, .warmup_steps = 5, .steps = kSteps};
constexpr double kWeightDecay = 0.1;
constexpr double kTolerance = 1e-9;

std::vector<double> ReadCurve(const std::string& model) {
  std::ifstream file("tests/reference/loss_curves.txt");
  std::vector<double> losses;
  std::string name;
  std::size_t step = 0;
  double loss = 0;
  while (file >> name >> step >> loss) {
    if (name != model) continue;
    EXPECT_EQ(step, losses.size());
    losses.push_back(loss);
  }
  EXPECT_EQ(losses.size(), static_cast<std::size_t>(kSteps)) << model;
  return losses;
}

struct Tokens {
  std::vector<std::int32_t> tokens, labels;
};
Tokens TokensOf(std::int64_t step) {
  Tokens batch;
  for (std::int64_t row = 0; row < kSequences; ++row) {
    const auto token = [&](std::int64_t k) {
      const std::int64_t value = k * k + 3 * (step * kSequences + row) * k + 5 * row;
      return static_cast<std::int32_t>(value % 97);
    };
    for (std::int64_t k = 0; k < kPositions; ++k) {
      batch.tokens.push_back(token(k));
      batch.labels.push_back(token(k + 1));
    }
  }
  return batch;
}

std::vector<double> Train(Model model, Plan plan, std::int64_t ranks) {
  model.mutable_recipe()->set_precision(FP64);
  plan.set_global_batch(kSequences);
  plan.set_sequence_length(kPositions);
  Cluster cluster;
  cluster.set_nodes(1);
  cluster.mutable_node()->set_gpus(ranks);
  const auto resolved = ResolvePlan(model, cluster, plan, ranks);
  EXPECT_TRUE(resolved.ok()) << resolved.error().message;
  const auto graph = Lower(model, cluster, resolved.value(), {.fold = false});
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  const ArenaPlan arena = PlanArena(graph.value());
  CpuBackend backend({.threads = 2});
  auto executor = Executor::Create(graph.value(), arena, resolved.value(), &backend, {});
  EXPECT_TRUE(executor.ok()) << executor.error().message;
  InitializeStates(model, graph.value(), kSeed, &backend);
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Tokens batch = TokensOf(step);
    EXPECT_TRUE(LoadBatch(graph.value(), kPositions, batch.tokens, batch.labels, &backend).ok());
    const Status done =
        executor.value()->RunIteration({.step = step,
                                        .learning_rate = LearningRate(kSchedule, step),
                                        .beta1 = 0.9,
                                        .beta2 = 0.95,
                                        .epsilon = 1e-8,
                                        .weight_decay = kWeightDecay,
                                        .clip_norm = model.recipe().clip_norm()});
    EXPECT_TRUE(done.ok()) << done.error().message;
    losses.push_back(ReadLoss(graph.value(), backend));
  }
  return losses;
}

class ReferenceCurve : public testing::TestWithParam<const char*> {};

void ExpectCurve(const std::vector<double>& losses, const std::vector<double>& expected) {
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(losses[step], expected[step], kTolerance) << "step " << step;
  }
}

TEST_P(ReferenceCurve, OfOneRank) {
  Plan plan;
  plan.set_micro_batch(2);
  const Model model = FindModel(GetParam()).value();
  ExpectCurve(Train(model, plan, 1), ReadCurve(GetParam()));
}

TEST_P(ReferenceCurve, OfSixteenRanks) {
  Plan plan;
  plan.set_tensor_parallel(2);
  plan.set_context_parallel(2);
  plan.set_pipeline_parallel(2);
  plan.set_data_parallel(2);
  plan.set_micro_batch(1);
  plan.set_recompute(RECOMPUTE_FULL);
  const Model model = FindModel(GetParam()).value();
  ExpectCurve(Train(model, plan, 16), ReadCurve(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceCurve,
                         testing::Values("tiny-gpt", "tiny-llama", "tiny-llama-gqa",
                                         "tiny-llama-tied"));

}  // namespace
}  // namespace twinstep
