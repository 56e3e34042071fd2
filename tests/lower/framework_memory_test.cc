// What frameworks' files say about memory, on one iteration of a Llama on one GPU.

#include "sim/lower/framework_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "hw_specs/find_cluster.h"
#include "hw_specs/frameworks/find_framework.h"
#include "model_zoo/find_model.h"
#include "sim/graph/arena.h"
#include "sim/graph/memory_timeline.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"
#include "tests/graph/arena_checker.h"

namespace twinstep {
namespace {

constexpr auto kGpu = static_cast<std::size_t>(Pool::kGpu);
constexpr std::int64_t kBatch = 32, kTokens = kBatch * 1024;

TaskGraph Iteration(const char* framework, Recompute recompute = RECOMPUTE_NONE) {
  Model model = FindModel("llama-1.3b").value();
  model.mutable_recipe()->set_gradient_precision(PARAMETER_GRADIENT);
  const Cluster cluster = FindCluster("h200").value();
  Plan plan;
  plan.set_sequence_length(1024);
  plan.set_micro_batch(kBatch);
  plan.set_global_batch(kBatch);
  plan.set_recompute(recompute);
  const ResolvedPlan resolved = ResolvePlan(model, cluster, plan, 1).value();
  if (framework == nullptr) return Lower(model, cluster, resolved).value();
  const Framework found = FindFramework(framework).value();
  return Lower(model, cluster, resolved, {.framework = &found}).value();
}

std::int64_t RoleAtPeak(const TaskGraph& graph, Role role) {
  return MeasureIssueOrderMemory(graph)[0][kGpu].at_peak[static_cast<std::size_t>(role)];
}

std::int64_t Peak(const TaskGraph& graph) {
  return MeasureIssueOrderMemory(graph)[0][kGpu].peak_bytes;
}

// Bytes of a token that 24 layers store, hidden size 2048, feed-forward 5504.
double StoredALayerAndToken(const TaskGraph& graph) {
  return static_cast<double>(RoleAtPeak(graph, Role::kActivation)) / kTokens / 24;
}

TEST(FrameworkMemoryTest, EagerAutogradKeepsWideResidualsAndWholeProjections) {
  const double h = 2048, ffn = 5504, statistics = 16 * 4;
  // Residuals twice, norms' outputs twice, Q, K, V, attention's output; gate, up, SiLU, product.
  const double fused = 2 * (2 * h + 2 * h + 3 * h + h + 4 * ffn) + statistics;
  EXPECT_NEAR(StoredALayerAndToken(Iteration(nullptr)), fused, 0.05 * fused);
  const double eager = fused + 4 * h + 4 * h;  // fp32 residuals; V keeps Q and K's source.
  EXPECT_NEAR(StoredALayerAndToken(Iteration("pytorch-eager")), eager, 0.05 * eager);
  const double compiled = eager - 2 * ffn;
  EXPECT_NEAR(StoredALayerAndToken(Iteration("pytorch-compile")), compiled, 0.05 * compiled);
}

TEST(FrameworkMemoryTest, CheckpointingDropsCopiesOfParameters) {
  // At the peak no gradient is there: 12 bytes a parameter, and the head's copy. Of activations the
  // layers' and the head's fp32 inputs and its norm's output, of logits three fp32 tensors.
  const std::int64_t parameters = 1'345'000'000;
  const std::int64_t logits = 12 * 32000 * kTokens;
  const std::int64_t inputs = (25 * 4 + 2) * 2048 * kTokens;
  EXPECT_NEAR(static_cast<double>(Peak(Iteration("pytorch-eager", RECOMPUTE_FULL))),
              static_cast<double>(12 * parameters + 2 * 65'536'000 + logits + inputs), 4e8);
}

TEST(FrameworkMemoryTest, LossHasScratch) {
  EXPECT_EQ(RoleAtPeak(Iteration("pytorch-eager"), Role::kWorkspace) -
                RoleAtPeak(Iteration("pytorch-compile"), Role::kWorkspace),
            10 * 32000 * kTokens);
}

TEST(FrameworkMemoryTest, ParametersAreMasters) {
  const TaskGraph graph = Iteration("pytorch-eager");
  std::int64_t persistent = 0;
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.persistent && buffer.role == Role::kParameter) persistent += buffer.bytes;
  }
  EXPECT_EQ(persistent, 0);
}

TEST(FrameworkMemoryTest, ArenaHolds) {
  for (const Recompute recompute : {RECOMPUTE_NONE, RECOMPUTE_FULL}) {
    const TaskGraph graph = Iteration("pytorch-eager", recompute);
    const ArenaPlan arena = PlanArena(graph);
    EXPECT_EQ(CheckArena(graph, arena), "");
    EXPECT_LE(static_cast<double>(arena.arena_bytes[0][kGpu]),
              1.05 * static_cast<double>(arena.live_bound_bytes[0][kGpu]));
  }
}

}  // namespace
}  // namespace twinstep
