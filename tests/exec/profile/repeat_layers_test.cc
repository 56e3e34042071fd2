#include "exec/profile/repeat_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "sim/graph/verifier.h"
#include "sim/lower/lower.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

constexpr std::int64_t kLayers = 4;

TaskGraph GraphOf(const Plan& plan, std::int64_t gpus) {
  Model model = SmallModel("llama", FP32);
  model.set_layers(kLayers);
  Cluster cluster;
  cluster.set_nodes(1);
  cluster.mutable_node()->set_gpus(gpus);
  const ResolvedPlan resolved = ResolvePlan(model, cluster, plan, gpus).value();
  return Lower(model, cluster, resolved, {.fold = false}).value();
}

// How many tasks there are of each rank, phase, block, micro-batch and shape.
using Counts = std::map<std::tuple<RankId, Phase, std::uint16_t, std::uint16_t, ShapeId>, int>;
Counts CountsOf(const TaskGraph& graph) {
  Counts counts;
  for (const Task& task : graph.tasks) {
    ++counts[{task.rank, task.phase, task.block, task.micro_batch, task.shape}];
  }
  return counts;
}

TEST(RepeatLayers, OnceIsTheGraphItself) {
  const TaskGraph graph = GraphOf(SmallPlan(2, 1, 1, 1), 2);
  const TaskGraph once = RepeatLayers(graph, kLayers, {});
  ASSERT_EQ(once.TaskCount(), graph.TaskCount());
  EXPECT_EQ(once.rank_begin, graph.rank_begin);
  EXPECT_EQ(once.rendezvous.size(), graph.rendezvous.size());
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    EXPECT_EQ(once.TaskName(id), graph.TaskName(id));
    EXPECT_EQ(once.tasks[id].rendezvous, graph.tasks[id].rendezvous);
    EXPECT_TRUE(std::ranges::equal(once.Successors(id), graph.Successors(id))) << id;
  }
}

TEST(RepeatLayers, LayersAndOptimizerRunAsOftenAsAsked) {
  Plan recomputed = SmallPlan(1, 1, 1, 2);
  recomputed.set_recompute(RECOMPUTE_FULL);
  for (const Plan& plan : {SmallPlan(2, 1, 1, 1), recomputed}) {
    const TaskGraph graph = GraphOf(plan, 2);
    const TaskGraph longer = RepeatLayers(graph, kLayers, {.layers = 3, .optimizer = 2});
    const Counts before = CountsOf(graph), after = CountsOf(longer);
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [key, count] : before) {
      const auto& [rank, phase, block, micro_batch, shape] = key;
      const int times = (block < kLayers ? 3 : 1) * (phase == Phase::kOptimizer ? 2 : 1);
      EXPECT_EQ(after.at(key), count * times);
    }
    // All members of a collective meet as often.
    std::map<RendezvousId, std::uint32_t> members;
    for (const Task& task : longer.tasks) {
      if (task.rendezvous != kNone) ++members[task.rendezvous];
    }
    EXPECT_EQ(members.size(), longer.rendezvous.size());
    for (const auto& [rendezvous, count] : members) {
      EXPECT_EQ(count, longer.rendezvous[rendezvous].participants);
    }
  }
}

// Passes stay whole: forward again and again, then backward; what is read was written, and nothing
// else runs beside a collective than did before.
TEST(RepeatLayers, IsAsWellOrderedAsTheGraph) {
  Plan recomputed = SmallPlan(1, 1, 1, 2);
  recomputed.set_recompute(RECOMPUTE_FULL);
  for (const Plan& plan : {SmallPlan(2, 1, 1, 1), recomputed}) {
    const TaskGraph longer = RepeatLayers(GraphOf(plan, 2), kLayers, {.layers = 3});
    const std::optional<Violation> bad = Verify(longer);
    EXPECT_FALSE(bad.has_value()) << bad->message;
  }
}

}  // namespace
}  // namespace twinstep
