#include "sim/engine/critical_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <utility>
#include <vector>

#include "sim/engine/engine.h"
#include "tests/engine/cost_builder.h"
#include "tests/engine/random_costs.h"
#include "tests/engine/training_graph.h"
#include "tests/graph/graph_builder.h"
#include "tests/graph/random_graph.h"

namespace twinstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;

auto Step(TaskId task, TaskId started_by, StartCause cause) {
  return AllOf(Field(&CriticalStep::task, task), Field(&CriticalStep::started_by, started_by),
               Field(&CriticalStep::cause, cause));
}

auto Share(Lane lane, std::uint32_t link, Picoseconds time_ps, Picoseconds slowed_ps,
           std::uint32_t tasks) {
  return AllOf(Field(&CriticalShare::lane, lane), Field(&CriticalShare::link, link),
               Field(&CriticalShare::time_ps, time_ps), Field(&CriticalShare::slowed_ps, slowed_ps),
               Field(&CriticalShare::tasks, tasks));
}

TEST(CriticalPathTest, EmptyGraph) {
  const TaskGraph graph = GraphBuilder(1).Build();
  const CriticalPath path = FindCriticalPath(graph, CostBuilder(graph).costs(), Replay());
  EXPECT_TRUE(path.steps.empty());
  EXPECT_TRUE(path.shares.empty());
}

TEST(CriticalPathTest, ThroughLaneDataAndRendezvous) {
  // Rank 0: two computes, then a send. Rank 1: a compute, a receive of the message, a copy.
  GraphBuilder builder(2);
  const BufferId x = builder.AddBuffer(0, 64);
  const BufferId y = builder.AddBuffer(1, 64);
  const BufferId z = builder.AddBuffer(1, 64);
  const BufferId host = builder.AddBuffer(1, 64, {.pool = Pool::kPinnedHost});
  const auto first = builder.Compute(0, {}, {x});
  const auto second = builder.Compute(0, {x}, {x});
  const auto early = builder.Compute(1, {}, {z});
  const auto [send, recv] = builder.SendRecv(x, y);
  const auto copy = builder.CopyD2H(y, host);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t nic = costs.AddLink(LinkKind::kNicOut, 10e9);
  costs.Set(builder.Id(first), 3'000'000, {});
  costs.Set(builder.Id(second), 4'000'000, {});
  costs.Set(builder.Id(early), 1'000'000, {});
  costs.Set(builder.Id(send), 2'000'000, {{.bytes = 100'000, .hops = {{nic, 1}}}});
  costs.Set(builder.Id(recv), 2'000'000, {});
  costs.Set(builder.Id(copy), 5'000'000, {{.bytes = 1'000, .max_bytes_per_s = 1e9}});
  const Result<Replay> replay = MakeFastEngine()->Run(graph, costs.costs());
  ASSERT_TRUE(replay.ok());
  ASSERT_EQ(replay.value().makespan_ps, 25'000'000);
  const CriticalPath path = FindCriticalPath(graph, costs.costs(), replay.value());
  EXPECT_THAT(path.steps,
              ElementsAre(Step(builder.Id(first), builder.Id(first), StartCause::kBegin),
                          Step(builder.Id(second), builder.Id(second), StartCause::kLane),
                          Step(builder.Id(recv), builder.Id(send), StartCause::kRendezvous),
                          Step(builder.Id(copy), builder.Id(copy), StartCause::kData)));
  EXPECT_THAT(path.shares, ElementsAre(Share(Lane::kRecvFwd, nic, 10'000'000, 0, 1),
                                       Share(Lane::kCompute, kNone, 7'000'000, 0, 2),
                                       Share(Lane::kD2H, kNone, 6'000'000, 0, 2),
                                       Share(Lane::kRecvFwd, kNone, 2'000'000, 0, 1)));
}

// A collective's cap is its efficiency times its narrowest link: that link is what limits it.
TEST(CriticalPathTest, AFlowAtItsCapCountsForItsNarrowestLink) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
  const auto copy = builder.CopyD2H(x, builder.AddBuffer(0, 64, {.pool = Pool::kPinnedHost}));
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t wide = costs.AddLink(LinkKind::kDram, 30e9);
  const std::uint32_t narrow = costs.AddLink(LinkKind::kPcieD2H, 10e9);
  // Four such flows share the third: 8e9 bytes/s for each.
  const std::uint32_t shared = costs.AddLink(LinkKind::kUplinkD2H, 32e9);
  costs.Set(
      builder.Id(copy), 2'000'000,
      {{.bytes = 50'000, .max_bytes_per_s = 5e9, .hops = {{wide, 1}, {narrow, 1}, {shared, 4}}}});
  const Result<Replay> replay = MakeFastEngine()->Run(graph, costs.costs());
  ASSERT_TRUE(replay.ok());
  EXPECT_THAT(FindCriticalPath(graph, costs.costs(), replay.value()).shares,
              ElementsAre(Share(Lane::kD2H, shared, 10'000'000, 0, 1),
                          Share(Lane::kD2H, kNone, 2'000'000, 0, 1)));
}

TEST(CriticalPathTest, TellsWhatSharingAndInterferenceAdd) {
  GraphBuilder builder(2);
  const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
  const BufferId y = builder.AddBuffer(1, 64, {.persistent = true});
  const auto compute = builder.Compute(0, {}, {builder.AddBuffer(0, 64)});
  const auto one = builder.CopyD2H(x, builder.AddBuffer(0, 64, {.pool = Pool::kPinnedHost}));
  const auto other = builder.CopyD2H(y, builder.AddBuffer(1, 64, {.pool = Pool::kPinnedHost}));
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t uplink = costs.AddLink(LinkKind::kUplinkD2H, 10e9);
  for (const auto handle : {one, other}) {
    costs.Set(builder.Id(handle), 0, {{.bytes = 1'000'000, .hops = {{uplink, 1}}}});
  }
  // Two copies take 200 us instead of 100.
  costs.Set(builder.Id(compute), 1'000'000, {});
  Result<Replay> replay = MakeFastEngine()->Run(graph, costs.costs());
  ASSERT_TRUE(replay.ok());
  EXPECT_THAT(FindCriticalPath(graph, costs.costs(), replay.value()).shares,
              ElementsAre(Share(Lane::kD2H, uplink, 200'000'000, 100'000'000, 1)));
  // 160 us of work in 200 us, then 240 us at full speed.
  costs.Set(builder.Id(compute), 400'000'000, {});
  costs.interference().set_compute_beside_copy(1.25);
  replay = MakeFastEngine()->Run(graph, costs.costs());
  ASSERT_TRUE(replay.ok());
  EXPECT_THAT(FindCriticalPath(graph, costs.costs(), replay.value()).shares,
              ElementsAre(Share(Lane::kCompute, kNone, 440'000'000, 40'000'000, 1)));
}

TEST(CriticalPathTest, OfA1F1BPipelineIsAllCompute) {
  const TrainingGraph training = MakeTrainingGraph(
      {.pipeline = 4, .micro_batches = 8, .forward_ps = 1'000'000, .backward_ps = 2'000'000});
  const Result<Replay> replay = MakeFastEngine()->Run(training.graph, training.costs);
  ASSERT_TRUE(replay.ok());
  Picoseconds compute_ps = 0;
  for (const CriticalShare& share :
       FindCriticalPath(training.graph, training.costs, replay.value()).shares) {
    if (share.lane == Lane::kCompute) compute_ps += share.time_ps;
  }
  EXPECT_EQ(compute_ps, replay.value().makespan_ps);
}

TEST(CriticalPathTest, GoesThroughTheJobThatHeldTheThread) {
  GraphBuilder builder(2);
  const auto held = builder.Compute(0, {}, {});
  const auto waits = builder.Compute(1, {}, {});
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.Set(builder.Id(held), 5'000'000, {});
  costs.Set(builder.Id(waits), 3'000'000, {});
  costs.workers() = {.threads = 1, .dispatch_ps = 1000, .wake_ps = 4000};
  const Result<Replay> replay = MakeFastEngine()->Run(graph, costs.costs());
  ASSERT_TRUE(replay.ok());
  const CriticalPath path = FindCriticalPath(graph, costs.costs(), replay.value());
  EXPECT_THAT(path.steps,
              ElementsAre(Step(builder.Id(held), builder.Id(held), StartCause::kBegin),
                          Step(builder.Id(waits), builder.Id(waits), StartCause::kThread)));
  EXPECT_THAT(path.shares, ElementsAre(Share(Lane::kCompute, kNone, 8'005'000, 0, 2)));
}

RC_GTEST_PROP(CriticalPathProperty, AddsUpToTheMakespanOnWorkerThreads, ()) {
  RandomGraphOptions graph_options;
  graph_options.seed = *rc::gen::arbitrary<std::uint64_t>();
  graph_options.ranks = *rc::gen::inRange(1u, 9u);
  graph_options.tasks = *rc::gen::inRange(1u, 300u);
  const TaskGraph graph = RandomGraph(graph_options);
  RandomCostOptions cost_options;
  cost_options.seed = *rc::gen::arbitrary<std::uint64_t>();
  cost_options.interference = false;
  GraphCosts costs = RandomCosts(graph, cost_options);
  costs.workers = {.threads = *rc::gen::inRange(1u, 5u),
                   .dispatch_ps = *rc::gen::inRange<Picoseconds>(0, 1000),
                   .wake_ps = *rc::gen::inRange<Picoseconds>(1000, 3000)};
  const Result<Replay> result = MakeFastEngine()->Run(graph, costs);
  RC_ASSERT(result.ok());
  Picoseconds sum = 0;
  for (const CriticalShare& share : FindCriticalPath(graph, costs, result.value()).shares) {
    sum += share.time_ps;
  }
  RC_ASSERT(sum == result.value().makespan_ps);
}

RC_GTEST_PROP(CriticalPathProperty, AddsUpToTheMakespanWithoutGaps, ()) {
  RandomGraphOptions graph_options;
  graph_options.seed = *rc::gen::arbitrary<std::uint64_t>();
  graph_options.ranks = *rc::gen::inRange(1u, 9u);
  graph_options.tasks = *rc::gen::inRange(1u, 300u);
  const TaskGraph graph = RandomGraph(graph_options);
  RandomCostOptions cost_options;
  cost_options.seed = *rc::gen::arbitrary<std::uint64_t>();
  cost_options.sharing = *rc::gen::arbitrary<bool>();
  cost_options.interference = *rc::gen::arbitrary<bool>();
  const GraphCosts costs = RandomCosts(graph, cost_options);
  const Result<Replay> result = MakeFastEngine()->Run(graph, costs);
  RC_ASSERT(result.ok());
  const Replay& replay = result.value();
  const CriticalPath path = FindCriticalPath(graph, costs, replay);
  Picoseconds at = 0;
  for (const CriticalStep& step : path.steps) {
    RC_ASSERT(replay.start_ps[step.task] == at);
    RC_ASSERT(replay.ready_ps[step.started_by] == at);
    at = replay.end_ps[step.task];
  }
  RC_ASSERT(at == replay.makespan_ps);
  Picoseconds sum = 0;
  for (const CriticalShare& share : path.shares) {
    RC_ASSERT(share.time_ps >= 0);
    RC_ASSERT(share.slowed_ps >= 0);
    RC_ASSERT(share.slowed_ps <= share.time_ps);
    sum += share.time_ps;
    // Alone means alone: one picosecond of rounding a task.
    if (!cost_options.sharing && !cost_options.interference) {
      RC_ASSERT(share.slowed_ps <= static_cast<Picoseconds>(share.tasks));
    }
  }
  RC_ASSERT(sum == replay.makespan_ps);
}

}  // namespace
}  // namespace twinstep
