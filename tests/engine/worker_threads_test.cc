// Lanes that share worker threads: closed forms for both engines, and properties of any graph.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/engine.h"
#include "tests/engine/cost_builder.h"
#include "tests/engine/random_costs.h"
#include "tests/graph/graph_builder.h"
#include "tests/graph/random_graph.h"

namespace twinstep {
namespace {

constexpr Picoseconds kMicrosecond = 1'000'000;

struct EngineCase {
  const char* name;
  std::unique_ptr<Engine> (*make)();
  Picoseconds tolerance;
};

class WorkerThreadsTest : public ::testing::TestWithParam<EngineCase> {
 protected:
  void SetUp() override {
    engine_ = GetParam().make();
    if (engine_ == nullptr) GTEST_SKIP() << "built without " << GetParam().name;
  }

  // Times of the tasks in microseconds, alone on a thread.
  void Run(const TaskGraph& graph, const std::vector<Picoseconds>& times,
           const WorkerPool& workers = {.threads = 1}, float busy_slowdown = 1) {
    CostBuilder costs(graph);
    for (TaskId id = 0; id < times.size(); ++id) {
      const std::uint32_t cost = costs.AddCost(times[id] * kMicrosecond);
      costs.costs().costs[cost].busy_slowdown = busy_slowdown;
      costs.Set(id, cost);
    }
    costs.workers() = workers;
    Run(graph, costs.costs());
  }

  void Run(const TaskGraph& graph, const GraphCosts& costs) {
    Result<Replay> replay = engine_->Run(graph, costs);
    ASSERT_TRUE(replay.ok()) << replay.error().message;
    replay_ = std::move(replay).value();
  }

  // In microseconds.
  void ExpectRuns(TaskId id, double start, double end) {
    const auto near = [](Picoseconds actual, double expected) {
      return std::abs(static_cast<double>(actual) - expected * kMicrosecond) <=
             static_cast<double>(GetParam().tolerance);
    };
    EXPECT_TRUE(near(replay_.start_ps[id], start))
        << "task " << id << " starts at " << replay_.start_ps[id] << ", not at " << start << " us";
    EXPECT_TRUE(near(replay_.end_ps[id], end))
        << "task " << id << " ends at " << replay_.end_ps[id] << ", not at " << end << " us";
  }

  std::unique_ptr<Engine> engine_;
  Replay replay_;
};

INSTANTIATE_TEST_SUITE_P(Engines, WorkerThreadsTest,
                         ::testing::Values(EngineCase{"fast", MakeFastEngine, 0},
                                           EngineCase{"simgrid", MakeSimgridEngine, 1000}),
                         [](const auto& which) { return std::string(which.param.name); });

// `count` ranks with one computation each.
TaskGraph Independent(std::uint32_t count) {
  GraphBuilder builder(count);
  for (RankId rank = 0; rank < count; ++rank) builder.Compute(rank, {}, {});
  return builder.Build();
}

TEST_P(WorkerThreadsTest, FourEqualTasksOnTwoThreadsTakeTwoRounds) {
  Run(Independent(4), {10, 10, 10, 10}, {.threads = 2});
  ExpectRuns(0, 0, 10);
  ExpectRuns(1, 0, 10);
  ExpectRuns(2, 10, 20);
  ExpectRuns(3, 10, 20);
}

TEST_P(WorkerThreadsTest, AFreeThreadTakesTheNextInTheQueue) {
  Run(Independent(5), {10, 3, 4, 5, 1}, {.threads = 2});
  ExpectRuns(2, 3, 7);
  ExpectRuns(3, 7, 12);
  ExpectRuns(4, 10, 11);
}

TEST_P(WorkerThreadsTest, MoreThreadsThanTasksChangeNothing) {
  Run(Independent(3), {1, 2, 3}, {.threads = 8});
  for (TaskId id = 0; id < 3; ++id) ExpectRuns(id, 0, id + 1.0);
}

TEST_P(WorkerThreadsTest, AThreadGoesOnWithItsLaneBeforeItTakesTheQueue) {
  GraphBuilder builder(2);
  const auto first = builder.Compute(0, {}, {});
  const auto second = builder.Compute(0, {}, {});
  const auto other = builder.Compute(1, {}, {});
  const TaskGraph graph = builder.Build();
  Run(graph, {5, 4, 3});
  ExpectRuns(builder.Id(first), 0, 5);
  ExpectRuns(builder.Id(second), 5, 9);  // Though the other rank waits since time 0.
  ExpectRuns(builder.Id(other), 9, 12);
}

TEST_P(WorkerThreadsTest, ALaneThatMustWaitGivesItsThreadAway) {
  GraphBuilder builder(2);
  const BufferId host = builder.AddBuffer(0, 64, {.pool = Pool::kPinnedHost, .persistent = true});
  const BufferId gpu = builder.AddBuffer(0, 64);
  const auto before = builder.Compute(0, {}, {});    // 0: 5 us.
  const auto after = builder.Compute(0, {gpu}, {});  // 1: 1 us, behind the copy.
  const auto copy = builder.CopyH2D(host, gpu);      // 2: 2 us.
  const auto other = builder.Compute(1, {}, {});     // 3: 3 us.
  builder.Order(before, copy);
  builder.Order(copy, after);
  const TaskGraph graph = builder.Build({.hazards = false});
  std::vector<Picoseconds> times(4);
  times[builder.Id(before)] = 5;
  times[builder.Id(after)] = 1;
  times[builder.Id(copy)] = 2;
  times[builder.Id(other)] = 3;
  Run(graph, times);
  ExpectRuns(builder.Id(before), 0, 5);
  // Lanes wait, not tasks: that of the copies stands in the queue since time 0, before the other
  // rank's, and that of `after` came back behind it.
  ExpectRuns(builder.Id(copy), 5, 7);
  ExpectRuns(builder.Id(other), 7, 10);
  ExpectRuns(builder.Id(after), 10, 11);
}

// An all-reduce over all ranks, whose work is its first member's.
std::vector<GraphBuilder::Handle> AddAllReduce(GraphBuilder& builder,
                                               const std::vector<RankId>& ranks) {
  std::vector<BufferId> buffers;
  for (const RankId rank : ranks) buffers.push_back(builder.AddBuffer(rank, 64));
  return builder.AllReduce(buffers);
}

TEST_P(WorkerThreadsTest, OneThreadDoesAWholeCollective) {
  GraphBuilder builder(5);
  const auto members = AddAllReduce(builder, {0, 1, 2, 3});
  const auto other = builder.Compute(4, {}, {});
  const TaskGraph graph = builder.Build();
  std::vector<Picoseconds> times(5, 0);
  times[builder.Id(members[0])] = 10;
  times[builder.Id(other)] = 7;
  Run(graph, times, {.threads = 2});
  for (const auto member : members) ExpectRuns(builder.Id(member), 0, 10);
  ExpectRuns(builder.Id(other), 0, 7);  // On the other thread.
}

TEST_P(WorkerThreadsTest, TheThreadOfACollectiveServesTheLaneThatCameLast) {
  GraphBuilder builder(3);
  const auto early = builder.Compute(0, {}, {}, Lane::kTp);        // 1 us.
  const auto late = builder.Compute(1, {}, {}, Lane::kTp);         // 4 us.
  const auto members = AddAllReduce(builder, {0, 1});              // 2 us.
  const auto after_early = builder.Compute(0, {}, {}, Lane::kTp);  // 3 us.
  const auto after_late = builder.Compute(1, {}, {}, Lane::kTp);   // 3 us.
  const auto other = builder.Compute(2, {}, {});                   // 8 us.
  const TaskGraph graph = builder.Build({.hazards = false});
  std::vector<Picoseconds> times(graph.tasks.size(), 0);
  times[builder.Id(early)] = 1;
  times[builder.Id(late)] = 4;
  times[builder.Id(members[0])] = 2;
  times[builder.Id(after_early)] = times[builder.Id(after_late)] = 3;
  times[builder.Id(other)] = 8;
  Run(graph, times, {.threads = 2});
  ExpectRuns(builder.Id(other), 1, 9);
  ExpectRuns(builder.Id(members[1]), 4, 6);
  ExpectRuns(builder.Id(after_late), 6, 9);
  ExpectRuns(builder.Id(after_early), 9, 12);
}

TEST_P(WorkerThreadsTest, DispatchLiesBetweenTasksAndWakingBeforeTheFirst) {
  GraphBuilder builder(1);
  for (int i = 0; i < 3; ++i) builder.Compute(0, {}, {});
  Run(builder.Build(), {10, 10, 10},
      {.threads = 1, .dispatch_ps = kMicrosecond, .wake_ps = 3 * kMicrosecond});
  ExpectRuns(0, 3, 13);
  ExpectRuns(1, 14, 24);
  ExpectRuns(2, 25, 35);
  EXPECT_LE(std::abs(replay_.ready_ps[1] - 13 * kMicrosecond), GetParam().tolerance);
}

TEST_P(WorkerThreadsTest, AThreadThatFoundNoWorkMustWake) {
  GraphBuilder builder(2);
  const auto first = builder.Compute(0, {}, {}, Lane::kTp);
  const auto second = builder.Compute(1, {}, {}, Lane::kTp);
  const auto members = AddAllReduce(builder, {0, 1});
  const TaskGraph graph = builder.Build({.hazards = false});
  std::vector<Picoseconds> times(4, 0);
  times[builder.Id(first)] = 5;
  times[builder.Id(second)] = 9;
  times[builder.Id(members[0])] = 2;
  const WorkerPool workers = {
      .threads = 2, .dispatch_ps = kMicrosecond, .wake_ps = 3 * kMicrosecond};
  Run(graph, times, workers);
  ExpectRuns(builder.Id(first), 3, 8);
  ExpectRuns(builder.Id(second), 3, 12);
  // The thread of the second takes it: the other one sleeps since 8.
  ExpectRuns(builder.Id(members[0]), 13, 15);
}

TEST_P(WorkerThreadsTest, AThreadLooksForWorkBeforeItSleeps) {
  // Rank 1 waits for rank 0, for a short time and for a long one.
  for (const int wait : {3, 20}) {
    GraphBuilder builder(2);
    const auto first = builder.Compute(0, {}, {}, Lane::kTp);
    const auto second = builder.Compute(1, {}, {}, Lane::kTp);
    const auto members = AddAllReduce(builder, {0, 1});
    const auto after_first = builder.Compute(0, {}, {}, Lane::kTp);
    const auto after_second = builder.Compute(1, {}, {}, Lane::kTp);
    const TaskGraph graph = builder.Build({.hazards = false});
    std::vector<Picoseconds> times(6, 0);
    times[builder.Id(first)] = 10 + wait;
    times[builder.Id(second)] = 10;
    times[builder.Id(after_first)] = times[builder.Id(after_second)] = 5;
    Run(graph, times,
        {.threads = 2,
         .dispatch_ps = 0,
         .wake_ps = 3 * kMicrosecond,
         .look_ps = 10 * kMicrosecond,
         .handoff_ps = kMicrosecond});
    ExpectRuns(builder.Id(members[0]), 13 + wait, 13 + wait);
    ExpectRuns(builder.Id(after_first), 13 + wait, 18 + wait);
    const int delay = wait < 10 ? 1 : 3;
    ExpectRuns(builder.Id(after_second), 13 + wait + delay, 18 + wait + delay);
  }
}

TEST_P(WorkerThreadsTest, BusyThreadsSlowEachOther) {
  Run(Independent(2), {10, 20}, {.threads = 2}, 2);
  ExpectRuns(0, 0, 20);
  ExpectRuns(1, 0, 30);  // Ten at half speed, ten alone.
  Run(Independent(2), {10, 10}, {.threads = 3}, 2);
  ExpectRuns(0, 0, 15);  // One of two other threads is busy.
  ExpectRuns(1, 0, 15);
}

TEST_P(WorkerThreadsTest, CopiesShareMemoryOnlyIfTheyRunSideBySide) {
  GraphBuilder builder(2);
  for (RankId rank = 0; rank < 2; ++rank) {
    const BufferId from = builder.AddBuffer(rank, 64, {.pool = Pool::kPinnedHost});
    builder.CopyH2D(from, builder.AddBuffer(rank, 64));
  }
  const TaskGraph graph = builder.Build({.hazards = false});
  CostBuilder costs(graph);
  const std::uint32_t dram = costs.AddLink(LinkKind::kDram, 15e9);
  for (TaskId id = 0; id < 2; ++id) {
    costs.Set(id, kMicrosecond, {{.bytes = 90'000, .max_bytes_per_s = 10e9, .hops = {{dram, 1}}}});
  }
  costs.workers() = {.threads = 2};
  Run(graph, costs.costs());
  ExpectRuns(0, 0, 13);  // 1 us, then 7.5 GB/s each.
  ExpectRuns(1, 0, 13);
  costs.workers() = {.threads = 1};
  Run(graph, costs.costs());
  ExpectRuns(0, 0, 10);
  ExpectRuns(1, 10, 20);
}

TEST(WorkerCostsTest, WhatAPoolCannotRunIsAnError) {
  const TaskGraph graph = Independent(1);
  CostBuilder costs(graph);
  costs.Set(0, kMicrosecond, {});
  costs.workers() = {.threads = 1, .dispatch_ps = -1};
  Result<Replay> replay = MakeFastEngine()->Run(graph, costs.costs());
  ASSERT_FALSE(replay.ok());
  EXPECT_EQ(replay.error().message, "workers.dispatch_ps -1");
  costs.workers() = {.threads = 1};
  costs.interference().set_compute_beside_copy(1.5);
  replay = MakeFastEngine()->Run(graph, costs.costs());
  ASSERT_FALSE(replay.ok());
  EXPECT_EQ(replay.error().message,
            "worker threads have no interference factors, but busy_slowdown");
}

// --- Properties.

TaskGraph DrawGraph() {
  RandomGraphOptions options;
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  options.ranks = *rc::gen::inRange(1u, 9u);
  options.tasks = *rc::gen::inRange(1u, 400u);
  return RandomGraph(options);
}

GraphCosts DrawCosts(const TaskGraph& graph, bool sharing) {
  RandomCostOptions options;
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  options.sharing = sharing;
  options.interference = false;
  return RandomCosts(graph, options);
}

Replay RunOrFail(Engine* engine, const TaskGraph& graph, const GraphCosts& costs) {
  Result<Replay> replay = engine->Run(graph, costs);
  if (!replay.ok()) RC_FAIL(replay.error().message);
  return std::move(replay).value();
}

// By job, named by its lowest task: when it runs.
std::vector<std::pair<Picoseconds, Picoseconds>> Jobs(const TaskGraph& graph,
                                                      const Replay& replay) {
  std::vector<std::pair<Picoseconds, Picoseconds>> jobs;
  std::vector<bool> seen(graph.rendezvous.size(), false);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const RendezvousId meeting = graph.tasks[id].rendezvous;
    if (meeting != kNone) {
      if (seen[meeting]) continue;
      seen[meeting] = true;
    }
    jobs.emplace_back(replay.start_ps[id], replay.end_ps[id]);
  }
  return jobs;
}

RC_GTEST_PROP(WorkerThreadsProperty, AThreadForEachLaneIsNoLimit, ()) {
  const TaskGraph graph = DrawGraph();
  GraphCosts costs = DrawCosts(graph, *rc::gen::arbitrary<bool>());
  const Replay lanes = RunOrFail(MakeFastEngine().get(), graph, costs);
  costs.workers.threads = static_cast<std::uint32_t>(graph.ranks.size()) * kLaneCount;
  const Replay threads = RunOrFail(MakeFastEngine().get(), graph, costs);
  RC_ASSERT(threads.start_ps == lanes.start_ps);
  RC_ASSERT(threads.end_ps == lanes.end_ps);
  RC_ASSERT(threads.ready_ps == lanes.ready_ps);
}

RC_GTEST_PROP(WorkerThreadsProperty, NeverMoreJobsThanThreadsAndNoThreadIdlesBesideReadyWork, ()) {
  const TaskGraph graph = DrawGraph();
  GraphCosts costs = DrawCosts(graph, *rc::gen::arbitrary<bool>());
  costs.workers.threads = *rc::gen::inRange(1u, 6u);
  const Replay replay = RunOrFail(MakeFastEngine().get(), graph, costs);
  // Jobs that run, and jobs that are ready and wait, change by one at each of these.
  std::vector<std::pair<Picoseconds, int>> running, waiting;
  for (const auto& [start, end] : Jobs(graph, replay)) {
    if (start == end) continue;
    running.push_back({start, 1});
    running.push_back({end, -1});
  }
  const auto most = [](std::vector<std::pair<Picoseconds, int>>& changes) {
    std::sort(changes.begin(), changes.end());
    int now = 0, highest = 0;
    for (const auto& [time, change] : changes) highest = std::max(highest, now += change);
    return highest;
  };
  RC_ASSERT(most(running) <= static_cast<int>(costs.workers.threads));

  std::vector<Picoseconds> ready(graph.rendezvous.size(), 0);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const RendezvousId meeting = graph.tasks[id].rendezvous;
    if (meeting != kNone) ready[meeting] = std::max(ready[meeting], replay.ready_ps[id]);
  }
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const RendezvousId meeting = graph.tasks[id].rendezvous;
    const Picoseconds at = meeting == kNone ? replay.ready_ps[id] : ready[meeting];
    RC_ASSERT(replay.start_ps[id] >= at);
    if (replay.start_ps[id] == at) continue;
    int busy = 0;  // Just before the task starts.
    for (const auto& [start, end] : Jobs(graph, replay)) {
      if (start < replay.start_ps[id] && end >= replay.start_ps[id]) ++busy;
    }
    RC_ASSERT(busy == static_cast<int>(costs.workers.threads));
  }
}

RC_GTEST_PROP(WorkerThreadsProperty, OneThreadTakesTheSumOfAllJobs, ()) {
  const TaskGraph graph = DrawGraph();
  GraphCosts costs = DrawCosts(graph, /*sharing=*/false);
  costs.workers = {.threads = 1,
                   .dispatch_ps = *rc::gen::inRange<Picoseconds>(0, 1000),
                   .wake_ps = *rc::gen::inRange<Picoseconds>(0, 5000)};
  const Replay replay = RunOrFail(MakeFastEngine().get(), graph, costs);
  const auto jobs = Jobs(graph, replay);
  Picoseconds sum = costs.workers.wake_ps;
  for (const auto& [start, end] : jobs) sum += end - start + costs.workers.dispatch_ps;
  RC_ASSERT(replay.makespan_ps == sum - costs.workers.dispatch_ps);
}

RC_GTEST_PROP(WorkerThreadsProperty, TheSecondEngineAgrees, ()) {
  const std::unique_ptr<Engine> simgrid = MakeSimgridEngine();
  if (simgrid == nullptr) return;
  const TaskGraph graph = DrawGraph();
  GraphCosts costs = DrawCosts(graph, *rc::gen::arbitrary<bool>());
  costs.workers = {.threads = *rc::gen::inRange(1u, 6u),
                   .dispatch_ps = *rc::gen::inRange<Picoseconds>(0, 100'000),
                   .wake_ps = *rc::gen::inRange<Picoseconds>(0, 500'000),
                   .look_ps = *rc::gen::inRange<Picoseconds>(0, 500'000),
                   .handoff_ps = *rc::gen::inRange<Picoseconds>(0, 100'000)};
  const std::uint64_t seed = *rc::gen::arbitrary<std::uint64_t>();
  for (std::size_t i = 0; i < costs.costs.size(); ++i) {
    costs.costs[i].busy_slowdown = 1 + static_cast<float>((seed >> (i % 60)) % 8) / 8;
  }
  const Replay one = RunOrFail(MakeFastEngine().get(), graph, costs);
  const Replay other = RunOrFail(simgrid.get(), graph, costs);
  const Picoseconds tolerance = one.makespan_ps / 1000 + 100;
  RC_ASSERT(std::abs(one.makespan_ps - other.makespan_ps) <= tolerance);
}

}  // namespace
}  // namespace twinstep
