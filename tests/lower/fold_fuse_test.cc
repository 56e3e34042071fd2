// Folding and fusing change no time: over the plan matrix, the lowering's folded graphs are the
// folds of its unfolded graphs, and folded and fused graphs replay as the unfolded ones do: to the
// picosecond where nothing shares or interferes, else within 1e-9.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hw_specs/find_cluster.h"
#include "sim/cost/fuse_costs.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/graph/fold.h"
#include "sim/graph/fuse.h"
#include "sim/graph/graph_equal.h"
#include "sim/lower/lower.h"
#include "sim/plan/placement.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

// Two GPUs a node, as the matrix's, with the H800's constants, on which links are shared and
// computations and copies slow each other.
Cluster SharedCluster() {
  Cluster cluster = FindCluster("h800").value();
  cluster.mutable_node()->set_gpus(2);
  cluster.mutable_node()->mutable_nic()->set_count(2);
  return cluster;
}

// Without what makes tasks depend on each other's times: no interference, and each flow has its
// links to itself.
GraphCosts Alone(GraphCosts costs) {
  for (Flow& flow : costs.flows) {
    for (std::uint32_t i = 0; i < flow.hop_count; ++i) {
      const RouteHop& hop = costs.hops[flow.hop_begin + i];
      const double rate = costs.links[hop.link].bytes_per_s;
      if (flow.max_bytes_per_s == 0 || rate < flow.max_bytes_per_s) flow.max_bytes_per_s = rate;
    }
    flow.hop_count = 0;
  }
  costs.interference.set_compute_beside_copy(1);
  costs.interference.set_compute_beside_collective(1);
  costs.interference.set_copy_beside_compute(1);
  costs.interference.set_collective_beside_compute(1);
  return costs;
}

// The same on GPUs whose kernels take turns: collectives are kernels, or begin with one.
GraphCosts WithTurns(const TaskGraph& graph, GraphCosts costs) {
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (graph.tasks[id].kind != TaskKind::kCollective) continue;
    const OpCode op = graph.shapes[graph.tasks[id].shape].op;
    costs.costs[costs.cost_of_task[id]].turn =
        op == OpCode::kAllGather ? KernelTurn::kBegins : KernelTurn::kWhole;
  }
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (graph.tasks[id].kind != TaskKind::kCompute) continue;
    TaskCost& cost = costs.costs[costs.cost_of_task[id]];
    cost.lets_in_ps = cost.fixed_ps / 4 * 3;
  }
  costs.handoff_ps = 3'000'000;
  costs.meeting_ps = 4'000'000;
  return costs;
}

Replay ReplayOf(const TaskGraph& graph, const GraphCosts& costs) {
  Result<Replay> replay = MakeFastEngine()->Run(graph, costs);
  EXPECT_TRUE(replay.ok()) << replay.error().message;
  return replay.ok() ? std::move(replay).value() : Replay{};
}

double RelativeDifference(Picoseconds a, Picoseconds b) {
  return a == b ? 0 : std::abs(static_cast<double>(a - b)) / static_cast<double>(std::max(a, b));
}

// The largest difference between the times of tasks and of those they stand for.
struct Difference {
  double relative = 0;
  Picoseconds absolute = 0;
  void See(Picoseconds a, Picoseconds b) {
    relative = std::max(relative, RelativeDifference(a, b));
    absolute = std::max(absolute, std::abs(a - b));
  }
};

Difference CompareFolded(const TaskGraph& graph, const Replay& replay, const TaskGraph& folded,
                         const Replay& folded_replay) {
  Difference difference;
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    const TaskId first = graph.rank_begin[rank];
    const TaskId folded_first = folded.rank_begin[folded.rank_class[rank]];
    for (TaskId i = 0; i < graph.rank_begin[rank + 1] - first; ++i) {
      difference.See(replay.start_ps[first + i], folded_replay.start_ps[folded_first + i]);
      difference.See(replay.end_ps[first + i], folded_replay.end_ps[folded_first + i]);
    }
  }
  difference.See(replay.makespan_ps, folded_replay.makespan_ps);
  return difference;
}

Difference CompareFused(const Replay& replay, const FusedGraph& fused, const Replay& fused_replay) {
  Difference difference;
  for (TaskId id = 0; id < fused.graph.TaskCount(); ++id) {
    difference.See(replay.start_ps[fused.MembersOf(id).front()], fused_replay.start_ps[id]);
    difference.See(replay.end_ps[fused.MembersOf(id).back()], fused_replay.end_ps[id]);
  }
  difference.See(replay.makespan_ps, fused_replay.makespan_ps);
  return difference;
}

TaskGraph LowerOn(const Cluster& cluster, const MatrixCase& test_case, bool fold) {
  return Lower(test_case.model, cluster, test_case.plan, {.fold = fold}).value();
}

RankClasses ClassesOf(const Cluster& cluster, const MatrixCase& test_case) {
  return SymmetryClasses(Placement(test_case.plan, cluster.node().gpus()), test_case.plan, cluster);
}

TEST(FoldFuseTest, LoweringFoldsAsThePassDoes) {
  int smaller = 0;
  for (const MatrixCase& test_case : PlanMatrix()) {
    const Cluster cluster = MatrixCluster();
    const TaskGraph graph = LowerOn(cluster, test_case, false);
    const TaskGraph direct = LowerOn(cluster, test_case, true);
    const Result<TaskGraph> folded = Fold(graph, ClassesOf(cluster, test_case).class_of);
    ASSERT_TRUE(folded.ok()) << test_case.name << ": " << folded.error().message;
    const std::optional<std::string> difference = FirstDifference(folded.value(), direct);
    EXPECT_FALSE(difference.has_value()) << test_case.name << ": " << *difference;
    smaller += direct.TaskCount() < graph.TaskCount() ? 1 : 0;
  }
  EXPECT_GT(smaller, 60);
}

TEST(FoldFuseTest, FoldedReplayIsTheUnfoldedReplay) {
  const Cluster cluster = SharedCluster();
  Difference alone, shared;
  for (const MatrixCase& test_case : PlanMatrix()) {
    const TaskGraph graph = LowerOn(cluster, test_case, false);
    const TaskGraph folded = LowerOn(cluster, test_case, true);
    const GraphCosts costs = ComputeCosts(graph, test_case.model, cluster, nullptr).value();
    const GraphCosts folded_costs = ComputeCosts(folded, test_case.model, cluster, nullptr).value();
    const GraphCosts costs_alone = Alone(costs);
    const GraphCosts folded_alone = Alone(folded_costs);
    alone =
        CompareFolded(graph, ReplayOf(graph, costs_alone), folded, ReplayOf(folded, folded_alone));
    EXPECT_EQ(alone.absolute, 0) << test_case.name;
    shared = CompareFolded(graph, ReplayOf(graph, costs), folded, ReplayOf(folded, folded_costs));
    EXPECT_LE(shared.relative, 1e-9) << test_case.name << ": " << shared.absolute << " ps";
    alone = CompareFolded(graph, ReplayOf(graph, WithTurns(graph, costs_alone)), folded,
                          ReplayOf(folded, WithTurns(folded, folded_alone)));
    EXPECT_EQ(alone.absolute, 0) << test_case.name << " with turns";
  }
}

TEST(FoldFuseTest, FusedReplayIsTheUnfusedReplay) {
  const Cluster cluster = SharedCluster();
  std::uint64_t tasks = 0;
  std::uint64_t fused_tasks = 0;
  for (const MatrixCase& test_case : PlanMatrix()) {
    for (const bool fold : {false, true}) {
      const TaskGraph graph = LowerOn(cluster, test_case, fold);
      const FusedGraph fused = Fuse(graph);
      tasks += graph.TaskCount();
      fused_tasks += fused.graph.TaskCount();
      const GraphCosts costs = ComputeCosts(graph, test_case.model, cluster, nullptr).value();
      // Segments keep their own sensitivity and their own rounding: nothing differs, whatever is
      // shared.
      for (const GraphCosts& each : {Alone(costs), costs, WithTurns(graph, costs)}) {
        const Result<GraphCosts> fused_costs = FuseCosts(fused, each);
        ASSERT_TRUE(fused_costs.ok()) << fused_costs.error().message;
        const Difference difference =
            CompareFused(ReplayOf(graph, each), fused, ReplayOf(fused.graph, fused_costs.value()));
        EXPECT_EQ(difference.absolute, 0) << test_case.name << (fold ? " folded" : "");
      }
    }
  }
  // Collectives and copies cut the runs short: 1.75 tasks become one on average.
  EXPECT_LT(fused_tasks * 5, tasks * 3);
}

TEST(FoldFuseTest, SimgridHonoursSegmentsToo) {
  const std::unique_ptr<Engine> engine = MakeSimgridEngine();
  if (engine == nullptr) GTEST_SKIP() << "built without SimGrid";
  const Cluster cluster = SharedCluster();
  int replays = 0;
  for (const MatrixCase& test_case : PlanMatrix()) {
    if (test_case.plan.offload_ratio != 0.5 || test_case.plan.v == 1) continue;
    const TaskGraph graph = LowerOn(cluster, test_case, true);
    const FusedGraph fused = Fuse(graph);
    const GraphCosts costs = ComputeCosts(graph, test_case.model, cluster, nullptr).value();
    const Result<Replay> replay = engine->Run(graph, costs);
    const Result<Replay> fused_replay = engine->Run(fused.graph, FuseCosts(fused, costs).value());
    ASSERT_TRUE(replay.ok() && fused_replay.ok());
    EXPECT_LE(CompareFused(replay.value(), fused, fused_replay.value()).relative, 1e-3)
        << test_case.name;
    ++replays;
  }
  EXPECT_EQ(replays, 4);
}

}  // namespace
}  // namespace twinstep
