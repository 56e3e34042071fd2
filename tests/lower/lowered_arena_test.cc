// Arenas of lowered graphs: valid for every plan of the matrix, close to the live bound for models
// of real size.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/graph/arena.h"
#include "sim/lower/lower.h"
#include "tests/graph/arena_checker.h"
#include "tests/graph/dispatch.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

constexpr auto kGpu = static_cast<std::size_t>(Pool::kGpu);

TEST(LoweredArena, IsValidForEveryPlan) {
  for (const MatrixCase& test_case : PlanMatrix()) {
    for (const bool fold : {false, true}) {
      SCOPED_TRACE(test_case.name + (fold ? " folded" : ""));
      const TaskGraph graph = LowerOrDie(test_case.model, test_case.plan, fold);
      const ArenaPlan plan = PlanArena(graph);
      EXPECT_EQ(CheckArena(graph, plan), "");
      EXPECT_EQ(CheckArenaInOrder(graph, plan, HoardingDispatch(graph)), "");
      EXPECT_EQ(CheckArenaInOrder(graph, plan, RandomDispatch(graph, /*seed=*/1)), "");
    }
  }
}

struct RealCase {
  std::string name;
  std::string model;
  std::int64_t gpus = 0;
  std::int64_t t = 1, c = 1, p = 1, v = 0;
  std::int64_t global_batch = 0, sequence = 0;
  double offload_ratio = 0;
  Recompute recompute = RECOMPUTE_NONE;
  int zero = 1;
};

void PrintTo(const RealCase& real, std::ostream* out) { *out << real.name; }

class LoweredArenaOf : public testing::TestWithParam<RealCase> {};

TEST_P(LoweredArenaOf, IsWithinFivePercentOfTheLiveBound) {
  const RealCase& real = GetParam();
  const Result<Model> model = FindModel(real.model);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const Result<Cluster> cluster = FindCluster("h800");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message;
  Plan plan;
  plan.set_tensor_parallel(real.t);
  plan.set_context_parallel(real.c);
  plan.set_pipeline_parallel(real.p);
  plan.set_virtual_stages(real.v);
  plan.set_global_batch(real.global_batch);
  plan.set_sequence_length(real.sequence);
  plan.set_offload_ratio(real.offload_ratio);
  plan.set_recompute(real.recompute);
  plan.set_zero_stage(real.zero);
  const Result<ResolvedPlan> resolved =
      ResolvePlan(model.value(), cluster.value(), plan, real.gpus);
  ASSERT_TRUE(resolved.ok()) << resolved.error().message;
  const Result<TaskGraph> lowered = Lower(model.value(), cluster.value(), resolved.value());
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  const TaskGraph& graph = lowered.value();

  const ArenaPlan arena = PlanArena(graph);
  EXPECT_EQ(CheckArenaInOrder(graph, arena, RandomDispatch(graph, /*seed=*/1)), "");
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    EXPECT_GT(arena.live_bound_bytes[rank][kGpu], 0);
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      EXPECT_LE(static_cast<double>(arena.arena_bytes[rank][pool]),
                1.05 * static_cast<double>(arena.live_bound_bytes[rank][pool]))
          << "rank " << rank << " " << Name(static_cast<Pool>(pool));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Real, LoweredArenaOf,
                         testing::Values(RealCase{.name = "InterleavedOffload",
                                                  .model = "llama-65b",
                                                  .gpus = 256,
                                                  .t = 2,
                                                  .c = 2,
                                                  .p = 8,
                                                  .v = 5,
                                                  .global_batch = 128,
                                                  .sequence = 8192,
                                                  .offload_ratio = 0.5},
                                         RealCase{.name = "OneForwardOneBackward",
                                                  .model = "llama-65b",
                                                  .gpus = 128,
                                                  .t = 4,
                                                  .p = 8,
                                                  .global_batch = 64,
                                                  .sequence = 4096},
                                         RealCase{.name = "FullRecompute",
                                                  .model = "llama-65b",
                                                  .gpus = 64,
                                                  .t = 8,
                                                  .p = 4,
                                                  .v = 10,
                                                  .global_batch = 32,
                                                  .sequence = 4096,
                                                  .recompute = RECOMPUTE_FULL},
                                         RealCase{.name = "BalancedZero3",
                                                  .model = "llama-13b",
                                                  .gpus = 16,
                                                  .t = 2,
                                                  .p = 4,
                                                  .v = 2,
                                                  .global_batch = 32,
                                                  .sequence = 4096,
                                                  .recompute = RECOMPUTE_BALANCED,
                                                  .zero = 3},
                                         RealCase{.name = "DataParallel",
                                                  .model = "llama-7b",
                                                  .gpus = 8,
                                                  .global_batch = 32,
                                                  .sequence = 2048,
                                                  .zero = 2}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace twinstep
