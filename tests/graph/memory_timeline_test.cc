#include "sim/graph/memory_timeline.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

#include "sim/graph/arena.h"
#include "tests/graph/graph_builder.h"
#include "tests/graph/pipeline_graph.h"
#include "tests/graph/random_graph.h"

namespace twinstep {
namespace {

constexpr auto kGpu = static_cast<std::size_t>(Pool::kGpu);
constexpr auto kPinned = static_cast<std::size_t>(Pool::kPinnedHost);
constexpr auto kParameter = static_cast<std::size_t>(Role::kParameter);
constexpr auto kActivation = static_cast<std::size_t>(Role::kActivation);
constexpr auto kTransient = static_cast<std::size_t>(Role::kTransient);

using Times = std::vector<std::int64_t>;

PoolMemory MeasureGpu(const TaskGraph& graph, const Times& start, const Times& end,
                      std::size_t max_points) {
  return MeasureMemory(graph, start, end, {.max_points = max_points}).value()[0][kGpu];
}

std::vector<std::pair<std::int64_t, std::int64_t>> Totals(const PoolMemory& memory) {
  std::vector<std::pair<std::int64_t, std::int64_t>> totals;
  for (const MemoryPoint& point : memory.curve) {
    totals.emplace_back(point.time_ps, point.total_bytes);
  }
  return totals;
}

// A forward that saves x, one that makes a temporary, a backward that reads both; offload of x.
struct Small {
  GraphBuilder builder{1};
  BufferId weights = builder.AddBuffer(0, 1000, {.role = Role::kParameter, .persistent = true});
  BufferId x = builder.AddBuffer(0, 100, {.role = Role::kActivation});
  BufferId t = builder.AddBuffer(0, 30);
  BufferId host = builder.AddBuffer(0, 100, {.pool = Pool::kPinnedHost, .role = Role::kActivation});
  GraphBuilder::Handle forward = builder.Compute(0, {weights}, {x});
  GraphBuilder::Handle copy = builder.CopyD2H(x, host);
  GraphBuilder::Handle temporary = builder.Compute(0, {x}, {t});
  GraphBuilder::Handle backward = builder.Compute(0, {t}, {weights});
  TaskGraph graph = builder.Build();
  Times start{10, 20, 20, 30}, end{20, 50, 30, 40};
};

TEST(MemoryTimeline, OfASmallGraph) {
  const Small small;
  const PoolMemory gpu = MeasureGpu(small.graph, small.start, small.end, 100);
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {
      {0, 1000}, {10, 1100}, {20, 1130}, {40, 1100}, {50, 1000}};
  EXPECT_EQ(Totals(gpu), expected);
  EXPECT_EQ(gpu.peak_bytes, 1130);
  EXPECT_EQ(gpu.peak_time_ps, 20);
  EXPECT_EQ(gpu.at_peak[kParameter], 1000);
  EXPECT_EQ(gpu.at_peak[kActivation], 100);
  EXPECT_EQ(gpu.at_peak[kTransient], 30);
  EXPECT_EQ(gpu.role_peak, gpu.at_peak);
  EXPECT_EQ(gpu.curve[1].bytes[kActivation], 100);
  EXPECT_EQ(gpu.curve[1].bytes[kTransient], 0);
}

TEST(MemoryTimeline, KeepsPoolsApart) {
  const Small small;
  const MemoryTimeline memory = MeasureMemory(small.graph, small.start, small.end).value();
  EXPECT_EQ(memory[0][kPinned].peak_bytes, 100);
  EXPECT_EQ(memory[0][kPinned].peak_time_ps, 20);
  EXPECT_TRUE(memory[0][kPinned].curve.empty());
  EXPECT_EQ(memory[0][static_cast<std::size_t>(Pool::kHost)].peak_bytes, 0);
}

// What ends at an instant has gone before what begins at it comes.
TEST(MemoryTimeline, CountsHalfOpenLives) {
  GraphBuilder builder(1);
  const BufferId a = builder.AddBuffer(0, 100);
  const BufferId b = builder.AddBuffer(0, 70);
  builder.Compute(0, {}, {b});
  builder.Compute(0, {}, {a});
  const TaskGraph graph = builder.Build();
  EXPECT_EQ(MeasureGpu(graph, {10, 0}, {20, 10}, 0).peak_bytes, 100);
  EXPECT_EQ(MeasureGpu(graph, {10, 0}, {20, 11}, 0).peak_bytes, 170);
  // A task that takes no time keeps nothing alive.
  EXPECT_EQ(MeasureGpu(graph, {10, 0}, {20, 0}, 0).peak_bytes, 70);
}

TEST(MemoryTimeline, RolePeaksAreTheirOwn) {
  GraphBuilder builder(1);
  const BufferId a = builder.AddBuffer(0, 100, {.role = Role::kActivation});
  const BufferId t = builder.AddBuffer(0, 70);
  builder.Compute(0, {}, {a});
  builder.Compute(0, {}, {t});
  const PoolMemory gpu = MeasureGpu(builder.Build(), {0, 10}, {10, 20}, 0);
  EXPECT_EQ(gpu.peak_bytes, 100);
  EXPECT_EQ(gpu.at_peak[kTransient], 0);
  EXPECT_EQ(gpu.role_peak[kTransient], 70);
}

TEST(MemoryTimeline, OfARankWithoutTasks) {
  GraphBuilder builder(1);
  builder.AddBuffer(0, 1000, {.role = Role::kParameter, .persistent = true});
  builder.AddBuffer(0, 10);  // Never touched: never alive.
  const PoolMemory gpu = MeasureGpu(builder.Build(), {}, {}, 10);
  EXPECT_EQ(gpu.peak_bytes, 1000);
  EXPECT_EQ(gpu.curve.size(), 1u);
}

TEST(MemoryTimeline, RefusesTimesOfAnotherGraph) {
  const Small small;
  const Result<MemoryTimeline> result = MeasureMemory(small.graph, Times{1, 2}, small.end);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "memory timeline: 2 starts and 4 ends for 4 tasks");
}

TEST(MemoryTimeline, TimesPast63BitsOfPointTimesParts) {
  GraphBuilder builder(1);
  Times start, end;
  constexpr std::int64_t kHour = std::int64_t{3600} * 1'000'000'000'000;
  for (int i = 0; i < 40; ++i) {
    builder.Compute(0, {}, {builder.AddBuffer(0, 100 + i)});
    start.push_back(i * kHour);
    end.push_back((i + 1) * kHour);
  }
  const PoolMemory gpu = MeasureGpu(builder.Build(), start, end, 10);
  EXPECT_LE(gpu.curve.size(), 10u);
  EXPECT_GE(gpu.curve.size(), 8u);
  EXPECT_EQ(gpu.peak_time_ps, 39 * kHour);
}

// Independent: the sum over buffers at every instant at which something changes.
std::int64_t BruteForcePeak(const TaskGraph& graph, RankId rank, std::size_t pool,
                            const Times& start, const Times& end) {
  struct Life {
    std::int64_t begin = -1, end = -1;
  };
  std::vector<Life> lives(graph.buffers.size());
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const auto& operands : {graph.Reads(id), graph.Writes(id)}) {
      for (const Operand& operand : operands) {
        lives[operand.buffer].end = std::max(lives[operand.buffer].end, end[id]);
      }
    }
    for (const Operand& operand : graph.Writes(id)) {
      Life& life = lives[operand.buffer];
      if (life.begin < 0 || start[id] < life.begin) life.begin = start[id];
    }
  }
  std::int64_t peak = 0;
  std::vector<std::int64_t> instants{0};
  for (const Life& life : lives) instants.push_back(std::max<std::int64_t>(life.begin, 0));
  for (const std::int64_t now : instants) {
    std::int64_t total = 0;
    for (BufferId id = 0; id < graph.buffers.size(); ++id) {
      const Buffer& buffer = graph.buffers[id];
      if (buffer.rank != rank || static_cast<std::size_t>(buffer.pool) != pool) continue;
      const bool lives_now = lives[id].begin >= 0 && lives[id].begin <= now && now < lives[id].end;
      if (buffer.persistent || lives_now) total += buffer.bytes;
    }
    peak = std::max(peak, total);
  }
  return peak;
}

// Each task ends a random while after all its predecessors.
void RandomTimes(const TaskGraph& graph, std::uint64_t seed, Times& start, Times& end) {
  start.assign(graph.tasks.size(), 0);
  end.assign(graph.tasks.size(), 0);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    end[id] = start[id] + static_cast<std::int64_t>((seed >> 33) % 50);
    for (const TaskId next : graph.Successors(id)) start[next] = std::max(start[next], end[id]);
  }
}

TEST(MemoryTimelineProperty, RandomGraphs) {
  EXPECT_TRUE(rc::check("peaks are right, curves keep them, arenas hold them", [] {
    const TaskGraph graph = RandomGraph({.seed = *rc::gen::arbitrary<std::uint32_t>(),
                                         .ranks = 2,
                                         .tasks = *rc::gen::inRange(1u, 200u)});
    Times start, end;
    RandomTimes(graph, *rc::gen::arbitrary<std::uint32_t>(), start, end);
    const auto max_points = *rc::gen::inRange<std::size_t>(3, 60);
    const MemoryTimeline memory =
        MeasureMemory(graph, start, end, {.max_points = max_points}).value();
    const ArenaPlan plan = PlanArena(graph);
    for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
      for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
        const PoolMemory& one = memory[rank][pool];
        RC_ASSERT(one.peak_bytes == BruteForcePeak(graph, rank, pool, start, end));
        RC_ASSERT(one.peak_bytes <= plan.arena_bytes[rank][pool]);
        RC_ASSERT(std::accumulate(one.at_peak.begin(), one.at_peak.end(), std::int64_t{0}) ==
                  one.peak_bytes);
        RC_ASSERT(one.curve.size() <= max_points);
        std::int64_t highest = 0, previous_ps = -1;
        for (const MemoryPoint& point : one.curve) {
          highest = std::max(highest, point.total_bytes);
          RC_ASSERT(point.time_ps > previous_ps);
          previous_ps = point.time_ps;
          RC_ASSERT(std::accumulate(point.bytes.begin(), point.bytes.end(), std::int64_t{0}) ==
                    point.total_bytes);
        }
        RC_ASSERT(highest == one.peak_bytes);
      }
    }
  }));
}

TEST(IssueOrderMemory, HasTheArenasBoundForPeak) {
  const TaskGraph graph = MakePipelineGraph({.offload = true});
  const MemoryTimeline memory = MeasureIssueOrderMemory(graph);
  const ArenaPlan plan = PlanArena(graph);
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      EXPECT_EQ(memory[rank][pool].peak_bytes, plan.live_bound_bytes[rank][pool]);
    }
    EXPECT_GT(memory[rank][kGpu].at_peak[kActivation], 0);
  }
}

}  // namespace
}  // namespace twinstep
