// Closed forms: to the picosecond for the fast engine, within a nanosecond for SimGrid, which
// computes in floating point.
#include "sim/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "tests/engine/both_engines.h"
#include "tests/engine/cost_builder.h"
#include "tests/engine/training_graph.h"
#include "tests/graph/graph_builder.h"
#include "tests/graph/simple_task.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;

using EngineTest = BothEnginesTest;

INSTANTIATE_TEST_SUITE_P(Engines, EngineTest, BothEngines(), EngineName);

TEST_P(EngineTest, EmptyGraph) {
  TaskGraph graph = GraphBuilder(1).Build();
  EXPECT_EQ(Run(graph, CostBuilder(graph).costs()).makespan_ps, 0);
}

TEST_P(EngineTest, ChainAddsUp) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 64);
  for (int i = 0; i < 5; ++i) builder.Compute(0, {x}, {x});
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  for (TaskId id = 0; id < 5; ++id) costs.Set(id, (id + 1) * 1'000'000, {});
  const Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.start_ps[3], 6'000'000, "start of the fourth");
  ExpectTime(replay.end_ps[3], 10'000'000, "end of the fourth");
  ExpectTime(replay.makespan_ps, 15'000'000, "makespan");
}

TEST_P(EngineTest, LanesRunSideBySideAndEachIsFifo) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  AddTask(builder, 0, TaskKind::kHost, Lane::kHost);
  // A lane is a FIFO even where no edge says so.
  const TaskGraph graph = builder.Build({.hazards = true, .lanes = false});
  CostBuilder costs(graph);
  for (TaskId id = 0; id < 3; ++id) costs.Set(id, 1'000'000, {});
  const Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[0], 1'000'000, "first of the compute lane");
  ExpectTime(replay.ready_ps[1], 1'000'000, "readiness of the second");
  ExpectTime(replay.end_ps[1], 2'000'000, "second of the compute lane");
  ExpectTime(replay.end_ps[2], 1'000'000, "host lane");
}

TEST_P(EngineTest, BytesTakeLatencyPlusBytesOverBandwidthOnEveryRouteKind) {
  for (int kind = 0; kind < kLinkKindCount; ++kind) {
    GraphBuilder builder(1);
    AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
    const TaskGraph graph = builder.Build();
    CostBuilder costs(graph);
    const std::uint32_t link = costs.AddLink(static_cast<LinkKind>(kind), 25e9);
    costs.Set(0, 10'000'000, {{.bytes = 1'000'000, .hops = {{link, 1}}}});
    ExpectTime(Run(graph, costs.costs()).makespan_ps, 10'000'000 + 40'000'000, "end");
  }
}

TEST_P(EngineTest, TheNarrowestLinkOrTheCapLimits) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  const std::pair<double, Picoseconds> cases[] = {
      {0, 50'000'000}, {40e9, 50'000'000}, {5e9, 200'000'000}};
  for (const auto& [cap, expected] : cases) {
    CostBuilder costs(graph);
    const std::uint32_t wide = costs.AddLink(LinkKind::kPcieH2D, 50e9);
    const std::uint32_t narrow = costs.AddLink(LinkKind::kDram, 20e9);
    costs.Set(0, 0,
              {{.bytes = 1'000'000, .max_bytes_per_s = cap, .hops = {{wide, 1}, {narrow, 1}}}});
    ExpectTime(Run(graph, costs.costs()).makespan_ps, expected, "end");
  }
}

TEST_P(EngineTest, OnlyACapLimits) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.Set(0, 3, {{.bytes = 1'000'000, .max_bytes_per_s = 1e9}});
  ExpectTime(Run(graph, costs.costs()).makespan_ps, 1'000'000'003, "end");
}

TEST_P(EngineTest, TimeIsRoundedToTheNearestPicosecond) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t link = costs.AddLink(LinkKind::kPcieH2D, 3e12);
  for (const auto& [bytes, expected] : {std::pair(99, 33), {100, 33}, {101, 34}, {102, 34}}) {
    costs.Set(0, 0, {{.bytes = bytes, .hops = {{link, 1}}}});
    ExpectTime(Run(graph, costs.costs()).makespan_ps, expected, "end at 3 bytes a picosecond");
  }
}

TEST_P(EngineTest, ZeroBytesTakeTheLatency) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t link = costs.AddLink(LinkKind::kPcieH2D, 25e9);
  costs.Set(0, 7'000'000, {{.bytes = 0, .hops = {{link, 1}}}});
  costs.Set(1, 0, {{.bytes = 0, .hops = {{link, 1}}}});
  const Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[0], 7'000'000, "end with latency");
  ExpectTime(replay.end_ps[1], 7'000'000, "end without");
}

// One copy on each of several ranks, all over one link of 10 GB/s.
struct SharedLink {
  explicit SharedLink(const std::vector<CostBuilder::FlowSpec>& flows)
      : graph(MakeGraph(flows.size())), costs(graph) {
    const std::uint32_t link = costs.AddLink(LinkKind::kUplinkH2D, 10e9);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      CostBuilder::FlowSpec flow = flows[i];
      const double times = flow.hops.empty() ? 1 : flow.hops[0].multiplicity;
      flow.hops = {{link, times}};
      costs.Set(static_cast<TaskId>(i), 0, {flow});
    }
  }
  static TaskGraph MakeGraph(std::size_t count) {
    GraphBuilder builder(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      AddTask(builder, static_cast<RankId>(i), TaskKind::kH2D, Lane::kH2D);
    }
    return builder.Build();
  }
  TaskGraph graph;
  CostBuilder costs;
};

TEST_P(EngineTest, TwoFlowsShareALink) {
  SharedLink two({{.bytes = 1'000'000}, {.bytes = 3'000'000}});
  const Replay replay = Run(two.graph, two.costs.costs());
  // Half each until the small one is done, then all for the other.
  ExpectTime(replay.end_ps[0], 200'000'000, "small");
  ExpectTime(replay.end_ps[1], 400'000'000, "large");
}

TEST_P(EngineTest, MaxMinOfThreeFlowsWithCaps) {
  SharedLink three({{.bytes = 2'000'000, .max_bytes_per_s = 2e9},
                    {.bytes = 4'000'000},
                    {.bytes = 8'000'000, .max_bytes_per_s = 9e9}});
  const Replay replay = Run(three.graph, three.costs.costs());
  // 2, 4, 4 GB/s for a millisecond; then the third alone, at its cap: 4 MB at 9 GB/s.
  ExpectTime(replay.end_ps[0], 1'000'000'000, "capped");
  ExpectTime(replay.end_ps[1], 1'000'000'000, "uncapped");
  ExpectTime(replay.end_ps[2], 1'000'000'000 + 444'444'444, "last");
}

TEST_P(EngineTest, MaxMinOfThreeFlowsOverTwoLinks) {
  GraphBuilder builder(3);
  for (RankId rank = 0; rank < 3; ++rank) AddTask(builder, rank, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t a = costs.AddLink(LinkKind::kUplinkH2D, 10e9);
  const std::uint32_t b = costs.AddLink(LinkKind::kDram, 20e9);
  costs.Set(0, 0, {{.bytes = 5'000'000, .hops = {{a, 1}, {b, 1}}}});
  costs.Set(1, 0, {{.bytes = 10'000'000, .hops = {{a, 1}}}});
  costs.Set(2, 0, {{.bytes = 25'000'000, .hops = {{b, 1}}}});
  const Replay replay = Run(graph, costs.costs());
  // 5, 5, 15 GB/s for a millisecond; then 5 MB at 10 GB/s, 10 MB at 20 GB/s.
  ExpectTime(replay.end_ps[0], 1'000'000'000, "over both");
  ExpectTime(replay.end_ps[1], 1'500'000'000, "over the narrow one");
  ExpectTime(replay.end_ps[2], 1'500'000'000, "over the wide one");
}

TEST_P(EngineTest, AFlowOfMultiplicityCountsAsManyFlows) {
  SharedLink folded({{.bytes = 3'000'000, .hops = {{0, 3}}}, {.bytes = 5'000'000}});
  const Replay replay = Run(folded.graph, folded.costs.costs());
  // Four quarters of 10 GB/s; the 3 MB take 1.2 ms, then 2 MB at 10 GB/s remain.
  ExpectTime(replay.end_ps[0], 1'200'000'000, "three flows");
  ExpectTime(replay.end_ps[1], 1'400'000'000, "one flow");
}

TEST_P(EngineTest, MultiplicityMayBeAFraction) {
  SharedLink folded({{.bytes = 4'000'000, .hops = {{0, 1.5}}}, {.bytes = 4'000'000}});
  const Replay replay = Run(folded.graph, folded.costs.costs());
  ExpectTime(replay.end_ps[0], 1'000'000'000, "one and a half flows");
  ExpectTime(replay.end_ps[1], 1'000'000'000, "one flow");
}

TEST_P(EngineTest, FoldedFlowsTakeAsLongAsUnfolded) {
  std::vector<CostBuilder::FlowSpec> all;
  for (int i = 0; i < 4; ++i) all.push_back({.bytes = 3'500'000});
  all.push_back({.bytes = 7'000'000, .max_bytes_per_s = 1.5e9});
  SharedLink unfolded(all);
  SharedLink folded({{.bytes = 3'500'000, .hops = {{0, 4}}}, all.back()});
  const Replay one = Run(unfolded.graph, unfolded.costs.costs());
  const Replay other = Run(folded.graph, folded.costs.costs());
  ExpectTime(other.end_ps[0], one.end_ps[0], "representative");
  ExpectTime(other.makespan_ps, one.makespan_ps, "makespan");
}

TEST_P(EngineTest, ALinkAsWideAsItsFlowsDelaysNone) {
  SharedLink two(
      {{.bytes = 1'000'000, .max_bytes_per_s = 5e9}, {.bytes = 1'000'000, .max_bytes_per_s = 5e9}});
  const Replay replay = Run(two.graph, two.costs.costs());
  ExpectTime(replay.end_ps[0], 200'000'000, "first");
  ExpectTime(replay.end_ps[1], 200'000'000, "second");
}

TEST_P(EngineTest, RendezvousStartsWithTheLastAndEndsForAll) {
  GraphBuilder builder(2);
  const RendezvousId meeting = builder.AddRendezvous(builder.AddGroup({0, 1}), 2);
  const auto early = AddTask(builder, 0, TaskKind::kSend, Lane::kSendFwd, meeting);
  const BufferId x = builder.AddBuffer(1, 64);
  const auto work = builder.Compute(1, {}, {x});
  const auto late = AddTask(builder, 1, TaskKind::kRecv, Lane::kRecvFwd, meeting);
  builder.Order(work, late);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t link = costs.AddLink(LinkKind::kNicOut, 10e9);
  costs.Set(builder.Id(work), 5'000'000, {});
  // The flow belongs to the sender; the receiver has no more than a latency.
  costs.Set(builder.Id(early), 2'000'000, {{.bytes = 1'000'000, .hops = {{link, 1}}}});
  costs.Set(builder.Id(late), 2'000'000, {});
  const Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.ready_ps[builder.Id(early)], 0, "readiness of the sender");
  ExpectTime(replay.ready_ps[builder.Id(late)], 5'000'000, "readiness of the receiver");
  for (const auto handle : {early, late}) {
    ExpectTime(replay.start_ps[builder.Id(handle)], 5'000'000, "start");
    ExpectTime(replay.end_ps[builder.Id(handle)], 5'000'000 + 2'000'000 + 100'000'000, "end");
  }
}

TEST_P(EngineTest, PipelineOf1F1BTakesItsClosedForm) {
  for (std::uint32_t p = 1; p <= 6; ++p) {
    for (const std::uint32_t m : {1u, 2u, 5u, 8u, 12u}) {
      const TrainingGraph training = MakeTrainingGraph(
          {.pipeline = p, .micro_batches = m, .forward_ps = 1'234'567, .backward_ps = 2'345'679});
      const Replay replay = Run(training.graph, training.costs);
      ExpectTime(replay.makespan_ps, (m + p - 1) * Picoseconds{1'234'567 + 2'345'679},
                 "(m + p - 1)(tF + tB)");
    }
  }
}

// A rank that computes for 10 ms beside a copy and a collective.
struct Interfering {
  Interfering(Picoseconds copy_latency, std::int64_t copy_bytes, Picoseconds collective_latency,
              std::int64_t collective_bytes, float sensitivity)
      : graph(MakeGraph()), costs(graph) {
    const std::uint32_t pcie = costs.AddLink(LinkKind::kPcieD2H, 10e9);
    const std::uint32_t nvlink = costs.AddLink(LinkKind::kNvlinkOut, 100e9);
    costs.Set(0, 10'000'000'000, {}, sensitivity);
    costs.Set(1, copy_latency, {{.bytes = copy_bytes, .hops = {{pcie, 1}}}});
    costs.Set(2, collective_latency, {{.bytes = collective_bytes, .hops = {{nvlink, 1}}}});
  }
  static TaskGraph MakeGraph() {
    GraphBuilder builder(1);
    AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
    AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
    AddTask(builder, 0, TaskKind::kCollective, Lane::kTp,
            builder.AddRendezvous(builder.AddGroup({0}), 1));
    return builder.Build();
  }
  TaskGraph graph;
  CostBuilder costs;
};

TEST_P(EngineTest, ComputeSlowsBesideACopyWhileItLasts) {
  // The copy takes 5 ms: at 1/1.25 speed 4 ms of work are done, then 6 ms at full speed.
  Interfering x(0, 50'000'000, 0, 0, 1);
  x.costs.interference().set_compute_beside_copy(1.25);
  ExpectTime(Run(x.graph, x.costs.costs()).end_ps[0], 11'000'000'000, "end");
}

TEST_P(EngineTest, CopiesOneWayHaveAFactorOfTheirOwn) {
  // D2H alone: 5 ms at half speed; then at full speed.
  Interfering x(0, 50'000'000, 0, 0, 1);
  x.costs.interference().set_compute_beside_copy(1.25);
  x.costs.interference().set_compute_beside_d2h(2);
  ExpectTime(Run(x.graph, x.costs.costs()).end_ps[0], 12'500'000'000, "end");

  // D2H for 5 ms, H2D for the first 2 of them: 2 / 1.25 + 3 / 2 ms of work are done.
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.interference() = x.costs.interference();
  costs.Set(0, 10'000'000'000, {});
  costs.Set(1, 5'000'000'000, {});
  costs.Set(2, 2'000'000'000, {});
  ExpectTime(Run(graph, costs.costs()).end_ps[0], 11'900'000'000, "beside both, then one");
}

TEST_P(EngineTest, WhatWasMeasuredOfATaskStandsForFactors) {
  // Copies for 5 ms, of which compute does half.
  Interfering x(0, 50'000'000, 0, 0, 1);
  x.costs.interference().set_compute_beside_copy(1.25);
  x.costs.costs().costs[x.costs.costs().cost_of_task[0]].beside_d2h = 2;
  ExpectTime(Run(x.graph, x.costs.costs()).end_ps[0], 12'500'000'000, "end");

  // A collective of 1 ms.
  Interfering y(0, 0, 0, 100'000'000, 1);
  y.costs.interference().set_collective_beside_compute(1.25);
  y.costs.costs().costs[y.costs.costs().cost_of_task[2]].beside_compute = 2;
  ExpectTime(Run(y.graph, y.costs.costs()).end_ps[2], 2'000'000'000, "end");
}

TEST_P(EngineTest, CopiesBesideHostTasksAndTheOtherDirection) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kHost, Lane::kHost);
  AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t down = costs.AddLink(LinkKind::kPcieD2H, 1e9);
  const std::uint32_t up = costs.AddLink(LinkKind::kPcieH2D, 1e9);
  costs.Set(0, 20'000'000'000, {});
  costs.Set(1, 0, {{.bytes = 2'000'000, .hops = {{down, 1}}}});
  costs.Set(2, 0, {{.bytes = 2'000'000, .hops = {{up, 1}}}});
  costs.interference().set_h2d_beside_host(1.25);
  costs.interference().set_h2d_beside_host_and_d2h(2);
  const Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[1], 2'000'000'000, "D2H");
  // 2 ms at half speed, then at 1/1.25.
  ExpectTime(replay.end_ps[2], 3'250'000'000, "H2D");
}

// All computation is 1.25 times as fast after a rest, for 50 ms at most.
void SetClocks(GraphCosts& costs, double boost_per_rest) {
  for (TaskCost& cost : costs.costs) cost.rested_speedup = 1.25;
  costs.clocks = {.boost_ps = 50'000'000'000, .boost_per_rest = boost_per_rest, .left_ps = {}};
}

// Compute of 10 ms, a rest of 4 ms while a copy runs, and compute of 10 ms.
TEST_P(EngineTest, ComputeIsFasterAfterARest) {
  GraphBuilder builder(1);
  const TaskId first = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const TaskId copy = AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
  const TaskId last = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  builder.Order(first, copy);
  builder.Order(copy, last);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.Set(builder.Id(first), 10'000'000'000, {});
  costs.Set(builder.Id(copy), 4'000'000'000, {});
  costs.Set(builder.Id(last), 10'000'000'000, {});
  SetClocks(costs.costs(), /*boost_per_rest=*/0.5);
  Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[builder.Id(first)], 10'000'000'000, "before the rest");
  // 2 ms at 1.25 times the speed.
  ExpectTime(replay.end_ps[builder.Id(last)] - replay.start_ps[builder.Id(last)], 9'500'000'000,
             "after the rest");

  // No more than there is room for.
  costs.costs().clocks.boost_ps = 1'000'000'000;
  replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[builder.Id(last)] - replay.start_ps[builder.Id(last)], 9'750'000'000,
             "after the rest");

  // What is left at the end is there at the begin: 4 ms of rest give 24, of which 8 are spent.
  SetClocks(costs.costs(), /*boost_per_rest=*/6);
  replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[builder.Id(first)], 8'000'000'000, "rested from the begin");
}

// At high clocks copies cost what was measured there: 10 ms of work, 4 of them alone after a rest
// at 1.25 times the speed, then beside an H2D, which takes 1.6 times the time of that speed.
TEST_P(EngineTest, CopiesSlowRestedComputeByWhatWasMeasuredThere) {
  GraphBuilder builder(1);
  const TaskId compute = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const TaskId wait = AddTask(builder, 0, TaskKind::kHost, Lane::kHost);
  const TaskId copy = AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  builder.Order(wait, copy);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.Set(builder.Id(compute), 10'000'000'000, {});
  costs.Set(builder.Id(wait), 4'000'000'000, {});
  costs.Set(builder.Id(copy), 50'000'000'000, {});
  SetClocks(costs.costs(), /*boost_per_rest=*/0.5);
  costs.costs().clocks.left_ps = {50'000'000'000};
  costs.interference().set_compute_beside_copy(1.25);
  const auto end_ps = [&] { return Run(graph, costs.costs()).end_ps[builder.Id(compute)]; };
  // 5 ms of the work in 4, the other 5 at full speed.
  ExpectTime(end_ps(), 9'000'000'000, "as at low clocks");
  for (TaskCost& cost : costs.costs().costs) cost.rested_beside_h2d = 2.5F;
  ExpectTime(end_ps(), 14'000'000'000, "as at high clocks");
  for (TaskCost& cost : costs.costs().costs) cost.rested_beside_d2h = cost.rested_beside_both = 3;
  ExpectTime(end_ps(), 14'000'000'000, "of the other ways nothing");
  // At low clocks: 4 ms alone, 6 of the work at 1 / 1.25.
  costs.costs().clocks.boost_ps = 0;
  ExpectTime(end_ps(), 11'500'000'000, "low clocks");
}

TEST_P(EngineTest, NoMoreBoostIsLeftThanThereIsRoomFor) {
  GraphBuilder builder(1);
  const TaskId only = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.Set(builder.Id(only), 10'000'000'000, {});
  SetClocks(costs.costs(), /*boost_per_rest=*/0);
  ClockBoost& clocks = costs.costs().clocks;
  const auto time_ps = [&](Picoseconds boost_ps, Picoseconds left_ps) {
    clocks.boost_ps = boost_ps;
    clocks.left_ps = {left_ps};
    return Run(graph, costs.costs()).makespan_ps;
  };
  // 4 ms do the work of 5.
  ExpectTime(time_ps(4'000'000'000, 4'000'000'000), 9'000'000'000, "as much as there is room for");
  ExpectTime(time_ps(4'000'000'000, 100'000'000'000), 9'000'000'000, "more");
  ExpectTime(time_ps(4'000'000'000, -1), 10'000'000'000, "less than nothing");
  ExpectTime(time_ps(0, 100'000'000'000), 10'000'000'000, "no boost");
}

// As ComputeIsFasterAfterARest, and the rest begins with 1 ms of a collective, which gives nothing
// back and takes nothing; what runs beside computation changes nothing either.
TEST_P(EngineTest, CommunicationIsNoRest) {
  GraphBuilder builder(1);
  const TaskId first = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const TaskId exposed = AddTask(builder, 0, TaskKind::kCollective, Lane::kTp);
  const TaskId copy = AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
  const TaskId last = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const TaskId beside = AddTask(builder, 0, TaskKind::kCollective, Lane::kDp);
  builder.Order(first, exposed);
  builder.Order(exposed, copy);
  builder.Order(copy, last);
  builder.Order(copy, beside);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.Set(builder.Id(first), 10'000'000'000, {});
  costs.Set(builder.Id(exposed), 1'000'000'000, {});
  costs.Set(builder.Id(copy), 3'000'000'000, {});
  costs.Set(builder.Id(last), 10'000'000'000, {});
  costs.Set(builder.Id(beside), 1'000'000'000, {});
  SetClocks(costs.costs(), /*boost_per_rest=*/0.5);
  const Replay replay = Run(graph, costs.costs());
  // 1.5 ms at 1.25 times the speed.
  ExpectTime(replay.end_ps[builder.Id(last)] - replay.start_ps[builder.Id(last)], 9'625'000'000,
             "after the rest");
}

TEST_P(EngineTest, CopiesSlowBesideHostTasksOfTheirRank) {
  GraphBuilder builder(2);
  const auto host = AddTask(builder, 0, TaskKind::kHost, Lane::kHost);
  const auto up = AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const auto down = AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
  const auto other = AddTask(builder, 1, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t h2d = costs.AddLink(LinkKind::kPcieH2D, 10e9);
  const std::uint32_t d2h = costs.AddLink(LinkKind::kPcieD2H, 10e9);
  const std::uint32_t h2d_of_other = costs.AddLink(LinkKind::kPcieH2D, 10e9);
  costs.Set(builder.Id(host), 10'000'000'000, {});
  costs.Set(builder.Id(up), 0, {{.bytes = 100'000'000, .hops = {{h2d, 1}}}});
  costs.Set(builder.Id(down), 0, {{.bytes = 100'000'000, .hops = {{d2h, 1}}}});
  costs.Set(builder.Id(other), 0, {{.bytes = 100'000'000, .hops = {{h2d_of_other, 1}}}});
  costs.interference().set_h2d_beside_host(2);
  costs.interference().set_d2h_beside_host(1.25);
  const Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[builder.Id(host)], 10'000'000'000, "host");
  // In 10 ms half of the bytes, and 80 %.
  ExpectTime(replay.end_ps[builder.Id(up)], 15'000'000'000, "up");
  ExpectTime(replay.end_ps[builder.Id(down)], 12'000'000'000, "down");
  ExpectTime(replay.end_ps[builder.Id(other)], 10'000'000'000, "another rank's");
}

TEST_P(EngineTest, SensitivityScalesTheFactor) {
  // 1 + 0.5 (1.5 - 1) = 1.25.
  Interfering x(0, 50'000'000, 0, 0, 0.5F);
  x.costs.interference().set_compute_beside_copy(1.5);
  ExpectTime(Run(x.graph, x.costs.costs()).end_ps[0], 11'000'000'000, "half sensitive");
  Interfering y(0, 50'000'000, 0, 0, 0);
  y.costs.interference().set_compute_beside_copy(1.5);
  ExpectTime(Run(y.graph, y.costs.costs()).end_ps[0], 10'000'000'000, "insensitive");
}

TEST_P(EngineTest, FactorsOfCopyAndCollectiveMultiply) {
  // 2.5 ms beside both: 2.5 / (1.25 x 2) = 1 ms of work; then 5 ms beside the collective: 2.5 ms;
  // then 6.5 ms.
  Interfering x(0, 25'000'000, 0, 750'000'000, 1);
  x.costs.interference().set_compute_beside_copy(1.25);
  x.costs.interference().set_compute_beside_collective(2);
  ExpectTime(Run(x.graph, x.costs.costs()).end_ps[0], 14'000'000'000, "end");
}

TEST_P(EngineTest, CopiesAndCollectivesSlowBesideCompute) {
  // The copy: 10 ms at 1/1.25 of 10 GB/s move 80 MB, the other 20 MB take 2 ms. The collective:
  // 10 ms at half of 100 GB/s move 500 MB, the other 500 MB take 5 ms.
  Interfering x(0, 100'000'000, 0, 1'000'000'000, 1);
  x.costs.interference().set_copy_beside_compute(1.25);
  x.costs.interference().set_collective_beside_compute(2);
  const Replay replay = Run(x.graph, x.costs.costs());
  ExpectTime(replay.end_ps[0], 10'000'000'000, "compute");
  ExpectTime(replay.end_ps[1], 12'000'000'000, "copy");
  ExpectTime(replay.end_ps[2], 15'000'000'000, "collective");
}

TEST_P(EngineTest, LatencyPassesAtFullSpeedButInterferes) {
  // 8 ms latency, 2.5 ms + 0.5 ms of flow: 2 ms beside compute move 1/1.25 of 20 MB.
  Interfering x(8'000'000'000, 30'000'000, 0, 0, 1);
  x.costs.interference().set_copy_beside_compute(1.25);
  const Replay replay = Run(x.graph, x.costs.costs());
  ExpectTime(replay.end_ps[0], 10'000'000'000, "compute");
  ExpectTime(replay.end_ps[1], 8'000'000'000 + 2'000'000'000 + 1'400'000'000, "copy");
  // A copy of no bytes slows compute for its 5 ms latency all the same.
  Interfering y(5'000'000'000, 0, 0, 0, 1);
  y.costs.interference().set_compute_beside_copy(1.25);
  ExpectTime(Run(y.graph, y.costs.costs()).end_ps[0], 11'000'000'000, "compute");
}

TEST_P(EngineTest, AFlowSlowedByComputeKeepsItsShare) {
  // Two ranks copy over one link; the first computes, so its copy makes half of its half.
  GraphBuilder builder(2);
  const auto compute = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const auto slow = AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const auto other = AddTask(builder, 1, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t link = costs.AddLink(LinkKind::kUplinkH2D, 20e9);
  costs.Set(builder.Id(compute), 100'000'000'000, {});
  costs.Set(builder.Id(slow), 0, {{.bytes = 30'000'000, .hops = {{link, 1}}}});
  costs.Set(builder.Id(other), 0, {{.bytes = 40'000'000, .hops = {{link, 1}}}});
  costs.interference().set_copy_beside_compute(2);
  const Replay replay = Run(graph, costs.costs());
  // 4 ms: 20 MB and 40 MB; then the slow one alone, at half of 20 GB/s.
  ExpectTime(replay.end_ps[builder.Id(other)], 4'000'000'000, "other");
  ExpectTime(replay.end_ps[builder.Id(slow)], 5'000'000'000, "slow");
}

constexpr double kNoLimit = HUGE_VAL;

// Of two GPUs: an H2D has 40 GB/s beside two D2H, two have 30 GB/s each.
HostCopyRates YieldingRates() {
  return {.gpus = 2,
          .h2d_bytes_per_s = {kNoLimit, kNoLimit, kNoLimit,  // Up 0, and down 0 .. 2.
                              kNoLimit, kNoLimit, 40e9,      // Up 1.
                              kNoLimit, kNoLimit, 30e9},     // Up 2.
          .d2h_bytes_per_s = std::vector<double>(9, kNoLimit)};
}

TEST_P(EngineTest, CopiesUpYieldToThoseThatManyGpusMakeDown) {
  GraphBuilder builder(2);
  const auto up = AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const auto down = AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
  const auto others_down = AddTask(builder, 1, TaskKind::kD2H, Lane::kD2H);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const auto copy = [](std::int64_t bytes, bool to_gpu, std::uint32_t host) {
    return CostBuilder::FlowSpec{
        .bytes = bytes, .max_bytes_per_s = 50e9, .hops = {}, .host = host, .to_gpu = to_gpu};
  };
  costs.SetHostCopies(2, YieldingRates());
  costs.Set(builder.Id(up), 0, {copy(100'000'000, true, 0)});
  costs.Set(builder.Id(down), 0, {copy(50'000'000, false, 0)});
  costs.Set(builder.Id(others_down), 500'000'000, {copy(25'000'000, false, 0)});
  // 0.5 ms at 50 GB/s, as long at 40, and the other 55 MB at 50. What comes down loses nothing.
  Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[builder.Id(up)], 2'100'000'000, "up");
  ExpectTime(replay.end_ps[builder.Id(down)], 1'000'000'000, "down");
  ExpectTime(replay.end_ps[builder.Id(others_down)], 1'000'000'000, "the other's down");
  // On another host.
  costs.Set(builder.Id(others_down), 500'000'000, {copy(25'000'000, false, 1)});
  replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[builder.Id(up)], 2'000'000'000, "up");
}

TEST_P(EngineTest, AFoldedRankCopiesAsManyGpus) {
  GraphBuilder builder(1);
  const auto up = AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const auto down = AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  costs.SetHostCopies(1, YieldingRates());
  // More than there are rates of count as these.
  for (const std::uint32_t gpus : {2u, 8u}) {
    const auto copy = [gpus](std::int64_t bytes, bool to_gpu) {
      return CostBuilder::FlowSpec{.bytes = bytes,
                                   .max_bytes_per_s = 50e9,
                                   .hops = {},
                                   .host = 0,
                                   .host_gpus = gpus,
                                   .to_gpu = to_gpu};
    };
    costs.Set(builder.Id(up), 0, {copy(80'000'000, true)});
    costs.Set(builder.Id(down), 0, {copy(50'000'000, false)});
    const Replay replay = Run(graph, costs.costs());
    ExpectTime(replay.end_ps[builder.Id(up)], 2'000'000'000, "up");  // 30 MB, then 50.
    ExpectTime(replay.end_ps[builder.Id(down)], 1'000'000'000, "down");
  }
}

TEST_P(EngineTest, WhatCopiesUpYieldOthersOfTheirLinkGet) {
  // Both directions of GPU 0 share 80 GB/s: 40 each. With the other GPU's 0.5 ms later up has 30
  // for 0.5 ms, and down 50.
  GraphBuilder builder(2);
  const auto up = AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const auto down = AddTask(builder, 0, TaskKind::kD2H, Lane::kD2H);
  const auto others_down = AddTask(builder, 1, TaskKind::kD2H, Lane::kD2H);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  HostCopyRates rates = YieldingRates();
  rates.h2d_bytes_per_s[5] = 30e9;
  costs.SetHostCopies(1, rates);
  const std::uint32_t link = costs.AddLink(LinkKind::kPcieDuplex, 80e9);
  costs.Set(builder.Id(up), 0,
            {{.bytes = 65'000'000,
              .max_bytes_per_s = 60e9,
              .hops = {{link, 1}},
              .host = 0,
              .to_gpu = true}});
  costs.Set(builder.Id(down), 0,
            {{.bytes = 65'000'000, .max_bytes_per_s = 60e9, .hops = {{link, 1}}, .host = 0}});
  costs.Set(builder.Id(others_down), 500'000'000,
            {{.bytes = 25'000'000, .max_bytes_per_s = 50e9, .hops = {}, .host = 0}});
  // At 1 ms up has moved 35 MB and down 45; then 40 each for 0.5 ms: 55 and 65; then 10 at 60.
  const Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[builder.Id(down)], 1'500'000'000, "down");
  ExpectTime(replay.end_ps[builder.Id(up)], 1'666'666'667, "up");
}

TEST_P(EngineTest, ErrorsOfHostCopiesNameThem) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  const auto message = [&](const HostCopyRates& rates, std::uint32_t host) {
    CostBuilder costs(graph);
    costs.SetHostCopies(1, rates);
    costs.Set(0, 0, {{.bytes = 1, .max_bytes_per_s = 1e9, .hops = {}, .host = host}});
    const Result<Replay> replay = engine_->Run(graph, costs.costs());
    return replay.ok() ? "no error" : replay.error().message;
  };
  EXPECT_EQ(message(YieldingRates(), 0), "no error");
  EXPECT_THAT(message(YieldingRates(), 1), HasSubstr("flow 0: host 1 of 1"));
  HostCopyRates rates = YieldingRates();
  rates.d2h_bytes_per_s[3] = 0;
  EXPECT_THAT(message(rates, 0), HasSubstr("host_copies: d2h_bytes_per_s 0"));
  rates.h2d_bytes_per_s.pop_back();
  EXPECT_THAT(message(rates, 0), HasSubstr("host_copies: h2d_bytes_per_s has 8 of 9 states"));
}

TEST_P(EngineTest, ComputeAndHostTasksMayHaveFlows) {
  GraphBuilder builder(2);
  AddTask(builder, 0, TaskKind::kHost, Lane::kHost);
  AddTask(builder, 1, TaskKind::kCompute, Lane::kCompute);
  AddTask(builder, 1, TaskKind::kD2H, Lane::kD2H);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t dram = costs.AddLink(LinkKind::kDram, 20e9);
  costs.Set(0, 1'000'000, {{.bytes = 10'000'000, .hops = {{dram, 1}}}});
  costs.Set(1, 1'000'000, {{.bytes = 10'000'000, .hops = {{dram, 1}}}});
  costs.Set(2, 4'000'000'000, {});
  Replay replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[0], 1'001'000'000, "host");
  ExpectTime(replay.end_ps[1], 1'001'000'000, "compute");
  // The whole of a compute task slows, its flow too; its share of the link does not. The host's
  // flow has the link alone from 1 to 2 us, shares it to 1000 us; by then the other moved 4.99 MB
  // at 5 GB/s, and 5.01 MB at 10 GB/s remain.
  costs.interference().set_compute_beside_copy(2);
  replay = Run(graph, costs.costs());
  ExpectTime(replay.end_ps[0], 1'000'000'000, "host");
  ExpectTime(replay.end_ps[1], 1'501'000'000, "compute");
}

TEST_P(EngineTest, DeadlockNamesRankLaneRendezvousAndWhoIsMissing) {
  // Two messages in opposite order on the lanes of two ranks.
  GraphBuilder builder(2);
  const GroupId group = builder.AddGroup({0, 1});
  const RendezvousId a = builder.AddRendezvous(group, 2);
  const RendezvousId b = builder.AddRendezvous(group, 2);
  AddTask(builder, 0, TaskKind::kSend, Lane::kSendFwd, a);
  AddTask(builder, 0, TaskKind::kSend, Lane::kSendFwd, b);
  AddTask(builder, 1, TaskKind::kRecv, Lane::kRecvFwd, b);
  AddTask(builder, 1, TaskKind::kRecv, Lane::kRecvFwd, a);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const Result<Replay> replay = engine_->Run(graph, costs.costs());
  ASSERT_FALSE(replay.ok());
  EXPECT_EQ(replay.error().code, ExitCode::kNo);
  EXPECT_EQ(replay.error().rule, "deadlock");
  EXPECT_EQ(replay.error().rank, 0);
  EXPECT_THAT(
      replay.error().message,
      HasSubstr("rank 0, lane send_fwd: task 0 (r0 send_fwd copy_h2d) waits at rendezvous 0 "
                "of 2 tasks; missing: task 3 (r1 recv_fwd copy_h2d), behind task 2 (r1 "
                "recv_fwd copy_h2d) of rendezvous 1"));
}

TEST_P(EngineTest, DeadlockOfAMemberThatDoesNotExist) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kCollective, Lane::kTp,
          builder.AddRendezvous(builder.AddGroup({0, 1}), 2));
  const TaskGraph graph = builder.Build();
  const Result<Replay> replay = engine_->Run(graph, CostBuilder(graph).costs());
  ASSERT_FALSE(replay.ok());
  EXPECT_EQ(replay.error().rule, "deadlock");
  EXPECT_THAT(replay.error().message, HasSubstr("1 of them are not in the graph"));
}

TEST_P(EngineTest, DeadlockOfACircleOfEdges) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kHost, Lane::kHost);
  const auto a = AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const auto b = AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  builder.Order(a, b);
  builder.Order(b, a);
  const TaskGraph graph = builder.Build();
  const Result<Replay> replay = engine_->Run(graph, CostBuilder(graph).costs());
  ASSERT_FALSE(replay.ok());
  EXPECT_EQ(replay.error().rule, "deadlock");
  EXPECT_THAT(replay.error().message,
              HasSubstr("task 1 (r0 compute add) waits in a circle for task 2 (r0 h2d copy_h2d), "
                        "which waits for task 1"));
}

TEST_P(EngineTest, BadCostsAreErrorsThatNameThem) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  const auto expect = [&](const char* message, auto&& spoil) {
    CostBuilder costs(graph);
    const std::uint32_t link = costs.AddLink(LinkKind::kPcieH2D, 1e9);
    costs.Set(0, 0, {{.bytes = 1, .hops = {{link, 1}}}});
    ASSERT_TRUE(engine_->Run(graph, costs.costs()).ok());
    spoil(costs.costs());
    const Result<Replay> replay = engine_->Run(graph, costs.costs());
    ASSERT_FALSE(replay.ok()) << message;
    EXPECT_EQ(replay.error().code, ExitCode::kBadInput);
    EXPECT_THAT(replay.error().message, HasSubstr(message));
  };
  expect("costs of 0 tasks", [](GraphCosts& x) { x.cost_of_task.clear(); });
  expect("task 0: cost 9", [](GraphCosts& x) { x.cost_of_task[0] = 9; });
  expect("link 0: bytes_per_s 0", [](GraphCosts& x) { x.links[0].bytes_per_s = 0; });
  expect("flow 0: link 3 of 1", [](GraphCosts& x) { x.hops[0].link = 3; });
  expect("flow 0: multiplicity -1", [](GraphCosts& x) { x.hops[0].multiplicity = -1; });
  expect("flow 0: -5 bytes", [](GraphCosts& x) { x.flows[0].bytes = -5; });
  expect("flow 0: its rate, inf", [](GraphCosts& x) { x.flows[0].hop_count = 0; });
  expect("flow 0: hops 0 + 7 of 1", [](GraphCosts& x) { x.flows[0].hop_count = 7; });
  expect("cost 1: fixed_ps -1", [](GraphCosts& x) { x.costs[1].fixed_ps = -1; });
  expect("cost 1: flows 2 + 1 of 1", [](GraphCosts& x) { x.costs[1].flow_begin = 2; });
  expect("cost 1: interference_sensitivity 2",
         [](GraphCosts& x) { x.costs[1].interference_sensitivity = 2; });
  expect("interference.compute_beside_copy -1",
         [](GraphCosts& x) { x.interference.set_compute_beside_copy(-1); });
}

TEST_P(EngineTest, BadGraphsAreErrors) {
  const auto expect = [&](const char* message, auto&& spoil) {
    GraphBuilder builder(2);
    AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
    AddTask(builder, 1, TaskKind::kCollective, Lane::kTp,
            builder.AddRendezvous(builder.AddGroup({1}), 1));
    TaskGraph graph = builder.Build();
    CostBuilder costs(graph);
    ASSERT_TRUE(engine_->Run(graph, costs.costs()).ok());
    spoil(graph);
    const Result<Replay> replay = engine_->Run(graph, costs.costs());
    ASSERT_FALSE(replay.ok()) << message;
    EXPECT_EQ(replay.error().code, ExitCode::kBadInput);
    EXPECT_THAT(replay.error().message, HasSubstr(message));
  };
  expect("task 0: rank 8", [](TaskGraph& x) { x.tasks[0].rank = 8; });
  expect("task 1: tasks are not stored rank by rank",
         [](TaskGraph& x) { std::swap(x.tasks[0].rank, x.tasks[1].rank); });
  expect("task 0: lane 77", [](TaskGraph& x) { x.tasks[0].lane = static_cast<Lane>(77); });
  expect("task 0: kind 77", [](TaskGraph& x) { x.tasks[0].kind = static_cast<TaskKind>(77); });
  expect("task 1: rendezvous 5", [](TaskGraph& x) { x.tasks[1].rendezvous = 5; });
  expect("rendezvous 0 takes 0 tasks, 1 join it",
         [](TaskGraph& x) { x.rendezvous[0].participants = 0; });
  expect("edges are not frozen", [](TaskGraph& x) { x.edges = EdgeGraph(); });
  expect("edge to unknown task 4", [](TaskGraph& x) {
    x.edges.m_forward.m_column = {4};
    x.edges.m_forward.m_rowstart = {0, 1, 1};
  });
}

TEST(FastEngineTest, AReplayOfMonthsIsAnError) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  AddTask(builder, 0, TaskKind::kCompute, Lane::kCompute);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  for (TaskId id = 0; id < 2; ++id) costs.Set(id, 3'000'000'000'000'000'000, {});
  for (const double factor : {1.0, 1.5}) {
    costs.interference().set_compute_beside_copy(factor);
    const Result<Replay> replay = MakeFastEngine()->Run(graph, costs.costs());
    ASSERT_FALSE(replay.ok());
    EXPECT_THAT(replay.error().message, HasSubstr("lasts more than"));
  }
}

TEST(FastEngineTest, HugeTransfersDoNotOverflow) {
  GraphBuilder builder(1);
  AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
  const TaskGraph graph = builder.Build();
  CostBuilder costs(graph);
  const std::uint32_t link = costs.AddLink(LinkKind::kPcieH2D, 1e12);
  // 4e18 bytes at one byte a picosecond.
  costs.Set(0, 0, {{.bytes = 4'000'000'000'000'000'000, .hops = {{link, 1}}}});
  const Result<Replay> replay = MakeFastEngine()->Run(graph, costs.costs());
  ASSERT_TRUE(replay.ok());
  EXPECT_EQ(replay.value().makespan_ps, 4'000'000'000'000'000'000);
}

}  // namespace
}  // namespace twinstep
