// Kernels that take turns on a GPU's multiprocessors, and delays between lanes and ranks: closed
// forms, to the picosecond for the fast engine, within a nanosecond for SimGrid.
#include "sim/engine/kernel_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "sim/engine/engine.h"
#include "tests/engine/both_engines.h"
#include "tests/engine/cost_builder.h"
#include "tests/engine/random_costs.h"
#include "tests/graph/graph_builder.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/simple_task.h"

namespace twinstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Picoseconds kUs = 1'000'000;

TEST(KernelTurnsTest, ComputationsOfAMomentComeFirstThenTheLowestTask) {
  KernelTurns turns(1);
  turns.Ask(0, 3, /*computes=*/false);
  turns.Ask(0, 1, /*computes=*/false);
  turns.Ask(0, 7, /*computes=*/true);
  EXPECT_FALSE(turns.IsAwaited(0));  // Not from before this moment.
  EXPECT_THAT(turns.Grant(), ElementsAre(7));
  EXPECT_TRUE(turns.IsAwaited(0));
  // What comes later waits behind them.
  turns.Ask(0, 0, /*computes=*/true);
  EXPECT_THAT(turns.Grant(), IsEmpty());
  turns.Release(0);
  EXPECT_THAT(turns.Grant(), ElementsAre(1));
  turns.Release(0);
  EXPECT_THAT(turns.Grant(), ElementsAre(3));
  turns.Release(0);
  EXPECT_THAT(turns.Grant(), ElementsAre(0));
}

TEST(KernelTurnsTest, GpusDoNotShare) {
  KernelTurns turns(2);
  turns.Ask(0, 3, /*computes=*/false);
  turns.Ask(1, 4, /*computes=*/true);
  EXPECT_THAT(turns.Grant(), ElementsAre(3, 4));
}

using TurnsTest = BothEnginesTest;

INSTANTIATE_TEST_SUITE_P(Engines, TurnsTest, BothEngines(), EngineName);

// Two computations of 10 and 6 us of one rank, and from 3 us on a movement.
struct OneRank {
  OneRank() : builder(1) {
    first = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
    second = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
    before = AddTask(builder, 0, TaskKind::kHost, Lane::kHost);
    movement = AddTask(builder, 0, TaskKind::kCollective, Lane::kDp);
    builder.Order(before, movement);
    graph = builder.Build();
    costs = std::make_unique<CostBuilder>(graph);
    costs->Set(builder.Id(first), 10 * kUs, {});
    costs->Set(builder.Id(second), 6 * kUs, {});
    costs->Set(builder.Id(before), 3 * kUs, {});
    // 2 us, and 4 us of a flow.
    costs->Set(builder.Id(movement), 2 * kUs, {{.bytes = 40'000, .max_bytes_per_s = 10e9}});
  }
  void SetTurn(KernelTurn turn) {
    costs->costs().costs[costs->costs().cost_of_task[builder.Id(movement)]].turn = turn;
  }

  GraphBuilder builder;
  GraphBuilder::Handle first, second, before, movement;
  TaskGraph graph;
  std::unique_ptr<CostBuilder> costs;
};

TEST_P(TurnsTest, AMovementThatNeedsNoMultiprocessorsRunsAtOnce) {
  OneRank one;
  const Replay replay = Run(one.graph, one.costs->costs());
  ExpectTimes(replay, one.builder.Id(one.movement), 3 * kUs, 9 * kUs, "movement");
  ExpectTimes(replay, one.builder.Id(one.second), 10 * kUs, 16 * kUs, "second");
}

// Both have started when they could; their times say how long they waited.
TEST_P(TurnsTest, AKernelWaitsForTheOneThatRunsAndHoldsUpTheNext) {
  OneRank one;
  one.SetTurn(KernelTurn::kWhole);
  const Replay replay = Run(one.graph, one.costs->costs());
  ExpectTimes(replay, one.builder.Id(one.first), 0, 10 * kUs, "first");
  ExpectTimes(replay, one.builder.Id(one.movement), 3 * kUs, 16 * kUs, "movement");
  ExpectTimes(replay, one.builder.Id(one.second), 10 * kUs, 22 * kUs, "second");
}

TEST_P(TurnsTest, CopyEnginesDoTheRestBesideTheNext) {
  OneRank one;
  one.SetTurn(KernelTurn::kBegins);
  const Replay replay = Run(one.graph, one.costs->costs());
  ExpectTimes(replay, one.builder.Id(one.movement), 3 * kUs, 16 * kUs, "movement");
  ExpectTimes(replay, one.builder.Id(one.second), 10 * kUs, 18 * kUs, "second");
}

// While one waits it slows nothing and is not slowed: only a flow beside computation is.
TEST_P(TurnsTest, InterferenceIsOfWhatRuns) {
  OneRank one;
  one.costs->interference().set_compute_beside_collective(1.5);
  one.costs->interference().set_collective_beside_compute(2);
  one.SetTurn(KernelTurn::kWhole);
  Replay replay = Run(one.graph, one.costs->costs());
  ExpectTimes(replay, one.builder.Id(one.movement), 3 * kUs, 16 * kUs, "movement");
  ExpectTimes(replay, one.builder.Id(one.second), 10 * kUs, 22 * kUs, "second");
  // From 12 us on side by side: the flow at half of its speed needs until 20 us, by when the second
  // has done 16 / 3 us of its work.
  one.SetTurn(KernelTurn::kBegins);
  replay = Run(one.graph, one.costs->costs());
  ExpectTimes(replay, one.builder.Id(one.movement), 3 * kUs, 20 * kUs, "movement");
  ExpectTimes(replay, one.builder.Id(one.second), 10 * kUs, 20'666'667, "second");
}

// The last of the first's thread blocks leave room: the movement begins 4 us before it ends.
TEST_P(TurnsTest, AKernelBeginsWhereTheOneBeforeLetsItIn) {
  OneRank one;
  one.SetTurn(KernelTurn::kWhole);
  GraphCosts& costs = one.costs->costs();
  costs.costs[costs.cost_of_task[one.builder.Id(one.first)]].lets_in_ps = 6 * kUs;
  const Replay replay = Run(one.graph, costs);
  ExpectTimes(replay, one.builder.Id(one.first), 0, 10 * kUs, "first");
  ExpectTimes(replay, one.builder.Id(one.movement), 3 * kUs, 12 * kUs, "movement");
  ExpectTimes(replay, one.builder.Id(one.second), 10 * kUs, 18 * kUs, "second");
}

// Members wait for their own GPU; all end when the last does.
TEST_P(TurnsTest, EachGpuHasTurnsOfItsOwn) {
  GraphBuilder builder(2);
  const RendezvousId meeting = builder.AddRendezvous(builder.AddGroup({0, 1}), 2);
  GraphBuilder::Handle first[2], sum[2], second[2];
  for (RankId rank = 0; rank < 2; ++rank) {
    first[rank] = AddTask(builder, rank, TaskKind::kCompute, Lane::kCompute);
    sum[rank] = AddTask(builder, rank, TaskKind::kCollective, Lane::kDp, meeting);
    second[rank] = AddTask(builder, rank, TaskKind::kCompute, Lane::kCompute);
  }
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  for (RankId rank = 0; rank < 2; ++rank) {
    costs.Set(builder.Id(first[rank]), rank == 0 ? 10 * kUs : 7 * kUs, {});
    costs.Set(builder.Id(second[rank]), 5 * kUs, {});
    const std::uint32_t cost = costs.AddCost(4 * kUs);
    costs.costs().costs[cost].turn = KernelTurn::kWhole;
    costs.Set(builder.Id(sum[rank]), cost);
  }
  const Replay replay = Run(graph, costs.costs());
  for (RankId rank = 0; rank < 2; ++rank) {
    ExpectTimes(replay, builder.Id(sum[rank]), 0, 14 * kUs, "sum");
  }
  ExpectTimes(replay, builder.Id(second[0]), 10 * kUs, 19 * kUs, "second of rank 0");
  ExpectTimes(replay, builder.Id(second[1]), 7 * kUs, 16 * kUs, "second of rank 1");
}

// Of a fused computation each member is a kernel.
TEST_P(TurnsTest, AKernelThatHasWaitedComesBetweenMembersOfAFusedComputation) {
  OneRank one;
  one.SetTurn(KernelTurn::kWhole);
  GraphCosts& costs = one.costs->costs();
  const std::uint32_t member = one.costs->AddCost(5 * kUs);
  const std::uint32_t none = one.costs->AddCost(0);
  const std::uint32_t fused = one.costs->AddCost(10 * kUs);
  costs.segments = {member, member, none};
  costs.costs[fused].segment_count = 3;
  one.costs->Set(one.builder.Id(one.first), fused);
  const Replay replay = Run(one.graph, costs);
  ExpectTimes(replay, one.builder.Id(one.movement), 3 * kUs, 11 * kUs, "movement");
  ExpectTimes(replay, one.builder.Id(one.first), 0, 16 * kUs, "fused");
  ExpectTimes(replay, one.builder.Id(one.second), 16 * kUs, 22 * kUs, "second");
}

// The first member lets the movement in after 4 of 5 us; the second comes at 5 us.
TEST_P(TurnsTest, MembersOfAFusedComputationLetKernelsIn) {
  OneRank one;
  one.SetTurn(KernelTurn::kWhole);
  GraphCosts& costs = one.costs->costs();
  const std::uint32_t member = one.costs->AddCost(5 * kUs);
  costs.costs[member].lets_in_ps = 4 * kUs;
  const std::uint32_t fused = one.costs->AddCost(10 * kUs);
  costs.segments = {member, member};
  costs.costs[fused].segment_count = 2;
  one.costs->Set(one.builder.Id(one.first), fused);
  const Replay replay = Run(one.graph, costs);
  ExpectTimes(replay, one.builder.Id(one.movement), 3 * kUs, 10 * kUs, "movement");
  ExpectTimes(replay, one.builder.Id(one.first), 0, 15 * kUs, "fused");
  ExpectTimes(replay, one.builder.Id(one.second), 15 * kUs, 21 * kUs, "second");
}

TEST_P(TurnsTest, AnotherLanesTaskBeginsAfterTheHandoff) {
  GraphBuilder builder(1);
  const auto first = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const auto same_lane = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const auto copy = AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
  const auto last = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  builder.Order(first, copy);
  builder.Order(copy, last);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.Set(builder.Id(first), 10 * kUs, {});
  costs.Set(builder.Id(same_lane), 1 * kUs, {});
  costs.Set(builder.Id(copy), 5 * kUs, {});
  costs.Set(builder.Id(last), 1 * kUs, {});
  costs.costs().handoff_ps = 3 * kUs;
  costs.costs().meeting_ps = 4 * kUs;  // Of no rendezvous here.
  Replay replay = Run(graph, costs.costs());
  ExpectTimes(replay, builder.Id(same_lane), 10 * kUs, 11 * kUs, "same lane");
  ExpectTimes(replay, builder.Id(copy), 13 * kUs, 18 * kUs, "copy");
  ExpectTimes(replay, builder.Id(last), 21 * kUs, 22 * kUs, "last");
  EXPECT_LE(std::abs(replay.ready_ps[builder.Id(last)] - 18 * kUs), GetParam().tolerance);
  // It passes while the lane is busy.
  costs.Set(builder.Id(same_lane), 10 * kUs, {});
  replay = Run(graph, costs.costs());
  ExpectTimes(replay, builder.Id(last), 21 * kUs, 22 * kUs, "last");
  costs.Set(builder.Id(same_lane), 12 * kUs, {});
  replay = Run(graph, costs.costs());
  ExpectTimes(replay, builder.Id(last), 22 * kUs, 23 * kUs, "last");
}

TEST_P(TurnsTest, RanksMeetAfterTheLastHasCome) {
  GraphBuilder builder(2);
  const RendezvousId meeting = builder.AddRendezvous(builder.AddGroup({0, 1}), 2);
  const RendezvousId alone = builder.AddRendezvous(builder.AddGroup({0}), 1);
  const auto work = AddTask(builder, 1, TaskKind::kCompute, Lane::kCompute);
  const auto early = AddTask(builder, 0, TaskKind::kCollective, Lane::kDp, meeting);
  const auto by_itself = AddTask(builder, 0, TaskKind::kCollective, Lane::kTp, alone);
  const auto late = AddTask(builder, 1, TaskKind::kCollective, Lane::kDp, meeting);
  builder.Order(work, late);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.Set(builder.Id(work), 5 * kUs, {});
  for (const auto handle : {early, late, by_itself}) costs.Set(builder.Id(handle), 2 * kUs, {});
  costs.costs().handoff_ps = 3 * kUs;
  costs.costs().meeting_ps = 4 * kUs;
  const Replay replay = Run(graph, costs.costs());
  ExpectTimes(replay, builder.Id(by_itself), 0, 2 * kUs, "group of one");
  for (const auto handle : {early, late}) {
    ExpectTimes(replay, builder.Id(handle), 12 * kUs, 14 * kUs, "member");
  }
}

TEST_P(TurnsTest, WorkerThreadsHaveNeither) {
  OneRank one;
  one.costs->workers().threads = 1;
  one.SetTurn(KernelTurn::kWhole);
  const auto message = [&] {
    const Result<Replay> replay = engine_->Run(one.graph, one.costs->costs());
    return replay.ok() ? "" : replay.error().message;
  };
  EXPECT_THAT(message(), HasSubstr("kernels that take turns"));
  one.SetTurn(KernelTurn::kNever);
  one.costs->costs().meeting_ps = 1;
  EXPECT_THAT(message(), HasSubstr("meeting_ps"));
  one.costs->workers().threads = 0;
  one.costs->costs().meeting_ps = -1;
  EXPECT_THAT(message(), HasSubstr("meeting_ps -1"));
  one.costs->costs().meeting_ps = 0;
  one.costs->costs().costs.back().lets_in_ps = one.costs->costs().costs.back().fixed_ps + 1;
  EXPECT_THAT(message(), HasSubstr("lets_in_ps"));
}

// Kernels of a rank never run side by side: where all of their work is one, it takes as long as all
// of it together at least. And whatever waits, everything ends.
RC_GTEST_PROP(TurnsProperty, KernelsOfARankAddUp, ()) {
  RandomGraphOptions graph_options;
  graph_options.seed = *rc::gen::arbitrary<std::uint64_t>();
  graph_options.ranks = *rc::gen::inRange(1u, 5u);
  graph_options.tasks = *rc::gen::inRange(1u, 300u);
  const TaskGraph graph = RandomGraph(graph_options);
  RandomCostOptions options;
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  options.turns = true;
  const GraphCosts costs = RandomCosts(graph, options);
  const Result<Replay> replay = MakeFastEngine()->Run(graph, costs);
  if (!replay.ok()) RC_FAIL(replay.error().message);
  std::vector<Picoseconds> kernels(graph.ranks.size(), 0);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    const TaskCost& cost = costs.Of(id);
    if (task.kind == TaskKind::kCompute || cost.turn != KernelTurn::kNever) {
      kernels[task.rank] += cost.lets_in_ps > 0 ? cost.lets_in_ps : cost.fixed_ps;
    }
  }
  for (const Picoseconds busy : kernels) RC_ASSERT(replay.value().makespan_ps >= busy);
}

}  // namespace
}  // namespace twinstep
