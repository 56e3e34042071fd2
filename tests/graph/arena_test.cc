#include "sim/graph/arena.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "sim/graph/verifier.h"
#include "tests/graph/arena_checker.h"
#include "tests/graph/dispatch.h"
#include "tests/graph/graph_builder.h"
#include "tests/graph/pipeline_graph.h"
#include "tests/graph/random_graph.h"

namespace twinstep {
namespace {

constexpr auto kGpu = static_cast<std::size_t>(Pool::kGpu);
constexpr auto kPinned = static_cast<std::size_t>(Pool::kPinnedHost);
constexpr auto kHost = static_cast<std::size_t>(Pool::kHost);

TEST(Arena, OfAnEmptyGraph) {
  const ArenaPlan plan = PlanArena(GraphBuilder(0).Build());
  EXPECT_TRUE(plan.offset.empty());
  EXPECT_TRUE(plan.arena_bytes.empty());
}

TEST(Arena, OfARankWithoutTasks) {
  GraphBuilder builder(1);
  builder.AddBuffer(0, 1000, {.persistent = true});
  const ArenaPlan plan = PlanArena(builder.Build());
  EXPECT_EQ(plan.arena_bytes[0][kGpu], 1024);
  EXPECT_EQ(plan.live_bound_bytes[0][kGpu], 1000);
}

// a -> b -> c: when c is written, a is dead.
TEST(Arena, ReusesBytesAlongALane) {
  GraphBuilder builder(1);
  const BufferId a = builder.AddBuffer(0, 1000);
  const BufferId b = builder.AddBuffer(0, 1000);
  const BufferId c = builder.AddBuffer(0, 1000);
  builder.Compute(0, {}, {a});
  builder.Compute(0, {a}, {b});
  builder.Compute(0, {b}, {c});
  const ArenaPlan plan = PlanArena(builder.Build());
  EXPECT_EQ(plan.offset[a], plan.offset[c]);
  EXPECT_NE(plan.offset[a], plan.offset[b]);
  EXPECT_EQ(plan.arena_bytes[0][kGpu], 2048);
  EXPECT_EQ(plan.live_bound_bytes[0][kGpu], 2000);
}

// A task's input and output are alive together, even if the input dies with it.
TEST(Arena, KeepsInputAndOutputApart) {
  GraphBuilder builder(1);
  const BufferId a = builder.AddBuffer(0, 256);
  const BufferId b = builder.AddBuffer(0, 256);
  builder.Compute(0, {}, {a});
  builder.Compute(0, {a}, {b});
  EXPECT_EQ(PlanArena(builder.Build()).arena_bytes[0][kGpu], 512);
}

struct SideCopy {
  GraphBuilder builder{1};
  BufferId a = builder.AddBuffer(0, 512);
  BufferId b = builder.AddBuffer(0, 512);
  BufferId host = builder.AddBuffer(0, 512, {.pool = Pool::kPinnedHost});
  GraphBuilder::Handle write_a = builder.Compute(0, {}, {a});
  GraphBuilder::Handle copy = builder.CopyD2H(a, host);
};

// In issue order the copy has ended when b is written, but nothing makes b wait for it.
TEST(Arena, DoesNotReuseWhatOnlyIssueOrderFrees) {
  SideCopy side;
  side.builder.Compute(0, {}, {side.b});
  const ArenaPlan plan = PlanArena(side.builder.Build());
  EXPECT_EQ(plan.arena_bytes[0][kGpu], 1024);
  EXPECT_EQ(plan.live_bound_bytes[0][kGpu], 512);
  EXPECT_EQ(plan.arena_bytes[0][kPinned], 512);
}

TEST(Arena, ReusesAcrossLanesWhatAPathOrders) {
  SideCopy side;
  // The path leads over a third task, on a third lane.
  const BufferId token = side.builder.AddBuffer(0, 256, {.pool = Pool::kHost});
  side.builder.Compute(0, {side.host}, {token}, Lane::kHost);
  side.builder.Compute(0, {token}, {side.b});
  const ArenaPlan plan = PlanArena(side.builder.Build());
  EXPECT_EQ(plan.arena_bytes[0][kGpu], 512);
  EXPECT_EQ(plan.offset[side.a], plan.offset[side.b]);
  EXPECT_EQ(plan.arena_bytes[0][kHost], 256);
}

// Two accesses to b on different lanes; only one of them waits for the copy.
TEST(Arena, AsksForTheOrderOfEveryFirstAccess) {
  SideCopy side;
  const BufferId c = side.builder.AddBuffer(0, 512);
  side.builder.Compute(0, {}, {c});
  const auto read_c = side.builder.Compute(0, {c}, {}, Lane::kTp);
  side.builder.Order(side.copy, read_c);
  EXPECT_EQ(PlanArena(side.builder.Build()).arena_bytes[0][kGpu], 1024);
}

TEST(Arena, PersistentBuffersShareWithNone) {
  GraphBuilder builder(1);
  const BufferId weights = builder.AddBuffer(0, 100, {.persistent = true});
  const BufferId state = builder.AddBuffer(0, 300, {.persistent = true});
  const BufferId x = builder.AddBuffer(0, 256);
  builder.Compute(0, {weights}, {x});
  builder.Compute(0, {x}, {});
  builder.Compute(0, {state}, {state});
  const ArenaPlan plan = PlanArena(builder.Build());
  EXPECT_EQ(plan.offset[weights], 0);
  EXPECT_EQ(plan.offset[state], 256);
  EXPECT_EQ(plan.offset[x], 768);
  EXPECT_EQ(plan.arena_bytes[0][kGpu], 1024);
  EXPECT_EQ(plan.live_bound_bytes[0][kGpu], 656);
}

// Small buffers fill the hole of a large one that died, around one that still lives.
TEST(Arena, FillsHoles) {
  GraphBuilder builder(1);
  const BufferId large = builder.AddBuffer(0, 1024);
  const BufferId kept = builder.AddBuffer(0, 256);
  std::vector<BufferId> small;
  for (int i = 0; i < 4; ++i) small.push_back(builder.AddBuffer(0, 256));
  builder.Compute(0, {}, {large});
  builder.Compute(0, {large}, {kept});
  builder.Compute(0, {}, small);
  builder.Compute(0, small, {});
  builder.Compute(0, {kept}, {});
  const ArenaPlan plan = PlanArena(builder.Build());
  EXPECT_EQ(plan.arena_bytes[0][kGpu], 1280);
  EXPECT_EQ(plan.live_bound_bytes[0][kGpu], 1280);
}

TEST(Arena, EmptyAndUntouchedBuffersTakeNoPlace) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 512);
  const BufferId empty = builder.AddBuffer(0, 0);
  const BufferId untouched = builder.AddBuffer(0, 512);
  builder.Compute(0, {}, {x, empty});
  const ArenaPlan plan = PlanArena(builder.Build());
  EXPECT_EQ(plan.arena_bytes[0][kGpu], 512);
  EXPECT_EQ(plan.offset[untouched], 0);
  EXPECT_EQ(plan.live_bound_bytes[0][kGpu], 512);
}

TEST(Arena, RanksHaveTheirOwnArenas) {
  GraphBuilder builder(3);
  for (RankId rank = 0; rank < 3; ++rank) {
    const BufferId x = builder.AddBuffer(rank, 1024);
    const BufferId y = builder.AddBuffer(rank, rank == 1 ? 2048 : 1024);
    builder.Compute(rank, {}, {x});
    builder.Compute(rank, {x}, {y});
  }
  const ArenaPlan plan = PlanArena(builder.Build());
  EXPECT_EQ(plan.arena_bytes[0][kGpu], 2048);
  EXPECT_EQ(plan.arena_bytes[1][kGpu], 3072);
  EXPECT_EQ(plan.arena_bytes[2][kGpu], 2048);
}

// Same tasks and bytes, but the edges of rank 1 do not free x for z.
TEST(Arena, RanksThatDifferInOneEdgeAreNoTwins) {
  GraphBuilder builder(2);
  for (RankId rank = 0; rank < 2; ++rank) {
    const BufferId x = builder.AddBuffer(rank, 1024);
    const BufferId z = builder.AddBuffer(rank, 1024);
    builder.Compute(rank, {}, {x});
    const auto read_x = builder.Compute(rank, {x}, {}, Lane::kTp);
    const auto write_z = builder.Compute(rank, {}, {z});
    if (rank == 0) builder.Order(read_x, write_z);
  }
  const ArenaPlan plan = PlanArena(builder.Build());
  EXPECT_EQ(plan.arena_bytes[0][kGpu], 1024);
  EXPECT_EQ(plan.arena_bytes[1][kGpu], 2048);
}

TEST(Arena, ChecksOfThePlanFindWrongPlans) {
  SideCopy side;
  side.builder.Compute(0, {}, {side.b});
  const TaskGraph graph = side.builder.Build();
  const ArenaPlan good = PlanArena(graph);
  EXPECT_EQ(CheckArena(graph, good), "");
  ArenaPlan bad = good;
  bad.offset[side.b] = bad.offset[side.a];
  EXPECT_NE(CheckArena(graph, bad), "");
  EXPECT_NE(CheckArenaInOrder(graph, bad, HoardingDispatch(graph)), "");
  bad = good;
  bad.offset[side.b] += 100;
  EXPECT_NE(CheckArena(graph, bad), "");
  bad = good;
  bad.live_bound_bytes[0][kGpu] += 1;
  EXPECT_NE(CheckArena(graph, bad), "");
}

bool PeaksAgree(const ArenaPeaks& peaks, const ArenaPlan& plan) {
  for (std::size_t rank = 0; rank < plan.arena_bytes.size(); ++rank) {
    const bool fuller = plan.arena_bytes[rank][kGpu] > peaks.gpu_bytes;
    const bool earlier =
        plan.arena_bytes[rank][kGpu] == peaks.gpu_bytes && rank < peaks.fullest_rank;
    if (fuller || earlier) return false;
    for (std::size_t pool = kGpu + 1; pool < kPoolCount; ++pool) {
      if (peaks.host_bytes[rank][pool] != plan.arena_bytes[rank][pool]) return false;
    }
  }
  return plan.arena_bytes.empty() ||
         (plan.arena_bytes[peaks.fullest_rank][kGpu] == peaks.gpu_bytes &&
          plan.live_bound_bytes[peaks.fullest_rank][kGpu] == peaks.gpu_live_bytes);
}

TEST(ArenaProperty, RandomGraphs) {
  EXPECT_TRUE(rc::check("no two buffers share bytes unordered, in any legal order", [] {
    const auto seed = *rc::gen::arbitrary<std::uint32_t>();
    const TaskGraph graph = RandomGraph({.seed = seed,
                                         .ranks = *rc::gen::inRange(1u, 4u),
                                         .tasks = *rc::gen::inRange(1u, 400u),
                                         .copy_percent = *rc::gen::inRange(0u, 40u),
                                         .extra_edge_percent = *rc::gen::inRange(0u, 60u),
                                         .working_set = *rc::gen::inRange(2u, 12u)});
    const ArenaPlan plan = PlanArena(graph);
    RC_ASSERT(CheckArena(graph, plan) == "");
    for (std::uint64_t order = 0; order < 4; ++order) {
      RC_ASSERT(CheckArenaInOrder(graph, plan, RandomDispatch(graph, seed + order)) == "");
    }
    RC_ASSERT(CheckArenaInOrder(graph, plan, HoardingDispatch(graph)) == "");
    RC_ASSERT(PlanArena(graph).offset == plan.offset);
    RC_ASSERT(PeaksAgree(FindArenaPeaks(graph), plan));
  }));
}

struct PipelineCase {
  const char* name;
  PipelineGraphOptions options;
};

class ArenaOfPipeline : public testing::TestWithParam<PipelineCase> {};

// Nothing smaller holds for every legal order than the peak of any one of them; issue order and
// the hoarding order are two.
TEST_P(ArenaOfPipeline, IsValidAndNearTheBound) {
  const TaskGraph graph = MakePipelineGraph(GetParam().options);
  // Everything inside the ranks is in order (what lies between them is checked last).
  const std::optional<Violation> violation = Verify(graph);
  ASSERT_TRUE(!violation || violation->rule == Rule::kRendezvousCycle) << violation->message;
  const ArenaPlan plan = PlanArena(graph);
  EXPECT_TRUE(PeaksAgree(FindArenaPeaks(graph), plan));
  const std::vector<DispatchStep> hoarding = HoardingDispatch(graph);
  EXPECT_EQ(CheckArenaInOrder(graph, plan, hoarding), "");
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    EXPECT_EQ(CheckArenaInOrder(graph, plan, RandomDispatch(graph, seed)), "");
  }
  const auto hoarding_peak = DispatchPeak(graph, hoarding);
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    for (const std::size_t pool : {kGpu, kPinned}) {
      const std::int64_t live = plan.live_bound_bytes[rank][pool];
      const std::int64_t bound = std::max(live, hoarding_peak[rank][pool]);
      const std::int64_t arena = plan.arena_bytes[rank][pool];
      EXPECT_GE(arena, bound);
      EXPECT_LE(arena * 100, bound * 105) << "rank " << rank << " pool " << pool;
      if (!GetParam().options.offload) {
        EXPECT_LE(arena * 100, live * 105) << "rank " << rank;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Arena, ArenaOfPipeline,
    testing::Values(
        PipelineCase{"OneForwardOneBackward", {.ranks = 8, .micro_batches = 16}},
        PipelineCase{"Deep", {.ranks = 4, .micro_batches = 6, .layers_per_stage = 8}},
        PipelineCase{"Interleaved",
                     {.ranks = 4, .micro_batches = 12, .virtual_stages = 3, .layers_per_stage = 2}},
        PipelineCase{"InterleavedOffload",
                     {.ranks = 4,
                      .micro_batches = 8,
                      .virtual_stages = 2,
                      .layers_per_stage = 3,
                      .offload = true}},
        PipelineCase{"Offload", {.ranks = 4, .micro_batches = 12, .offload = true}},
        PipelineCase{"ManyTemporaries",
                     {.ranks = 2, .micro_batches = 8, .extra_temporaries = 4, .seed = 5}},
        PipelineCase{"OddSizes", {.ranks = 4, .micro_batches = 8, .seed = 3}},
        PipelineCase{"OddSizesInterleaved",
                     {.ranks = 4,
                      .micro_batches = 8,
                      .virtual_stages = 2,
                      .layers_per_stage = 3,
                      .seed = 11}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace twinstep
