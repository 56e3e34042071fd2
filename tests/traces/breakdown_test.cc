#include "traces/breakdown.h"

#include <gtest/gtest.h>

#include "tests/traces/tiny_graph.h"
#include "traces/lane_use.h"
#include "traces/trace_builder.h"

namespace twinstep {
namespace {

using testing::TwoRankRun;

TEST(BreakdownTest, SharesOfTwoRanksByHand) {
  const testing::TinyRun run = TwoRankRun();
  const std::vector<Breakdown> ranks = BreakDown(run.graph, run.replay);
  ASSERT_EQ(ranks.size(), 2u);

  // Rank 0: computes 10, sends 5, waits until 45 for its partner, reduces 10.5, updates 4.5.
  EXPECT_EQ(ranks[0][TimeClass::kCompute], 10'000);
  EXPECT_EQ(ranks[0][TimeClass::kPipelineParallel], 5'000);
  EXPECT_EQ(ranks[0][TimeClass::kBubble], 30'000);
  EXPECT_EQ(ranks[0][TimeClass::kDataParallel], 10'500);
  EXPECT_EQ(ranks[0][TimeClass::kOptimizer], 4'500);
  EXPECT_EQ(ranks[0][TimeClass::kCopies], 0);

  // Rank 1: waits 10, receives 5, computes 16 and recomputes 4; the copy outlasts them by 10.
  EXPECT_EQ(ranks[1][TimeClass::kCompute], 16'000);
  EXPECT_EQ(ranks[1][TimeClass::kRecompute], 4'000);
  EXPECT_EQ(ranks[1][TimeClass::kPipelineParallel], 5'000);
  EXPECT_EQ(ranks[1][TimeClass::kCopies], 10'000);
  EXPECT_EQ(ranks[1][TimeClass::kBubble], 10'000);
  EXPECT_EQ(ranks[1][TimeClass::kDataParallel], 10'500);

  for (const Breakdown& rank : ranks) EXPECT_EQ(rank.Total(), run.replay.makespan_ps);
}

TEST(BreakdownTest, TraceGivesTheSameShares) {
  const testing::TinyRun run = TwoRankRun();
  const auto of_trace = BreakDown(BuildTrace(run.graph, run.replay, "two ranks"));
  ASSERT_TRUE(of_trace.ok()) << of_trace.error().message;
  const std::vector<Breakdown> of_graph = BreakDown(run.graph, run.replay);
  ASSERT_EQ(of_trace.value().size(), of_graph.size());
  for (std::size_t i = 0; i < of_graph.size(); ++i) {
    EXPECT_EQ(of_trace.value()[i].time_ps, of_graph[i].time_ps);
  }
}

TEST(BreakdownTest, MeanCountsEveryRankOfAClass) {
  std::vector<Breakdown> ranks(2);
  ranks[0].time_ps[0] = 4'000'000'000'000;
  ranks[1].time_ps[0] = 1'000'000'000'000;
  const std::uint32_t class_size[] = {1, 3};
  EXPECT_DOUBLE_EQ(MeanSeconds(ranks, class_size)[0], (4.0 + 3 * 1.0) / 4);
}

TEST(BreakdownTest, EveryKindOfCommunicationHasItsClass) {
  EXPECT_EQ(ClassOf(TaskKind::kCollective, Lane::kTp, Phase::kRecompute),
            TimeClass::kTensorParallel);
  EXPECT_EQ(ClassOf(TaskKind::kCollective, Lane::kCp, Phase::kBackward),
            TimeClass::kContextParallel);
  EXPECT_EQ(ClassOf(TaskKind::kCollective, Lane::kDp, Phase::kOptimizer), TimeClass::kDataParallel);
  EXPECT_EQ(ClassOf(TaskKind::kSend, Lane::kSendBwd, Phase::kBackward),
            TimeClass::kPipelineParallel);
  EXPECT_EQ(ClassOf(TaskKind::kH2D, Lane::kH2D, Phase::kOptimizer), TimeClass::kCopies);
  EXPECT_EQ(ClassOf(TaskKind::kHost, Lane::kHost, Phase::kOptimizer), TimeClass::kOptimizer);
}

TEST(BreakdownTest, BadTraceColumnsAreNamed) {
  const testing::TinyRun run = TwoRankRun();
  Trace trace = BuildTrace(run.graph, run.replay, "");
  trace.set_lanes(0, "warp drive");
  EXPECT_EQ(BreakDown(trace).error().message, "trace event 0: unknown lane 0");

  trace = BuildTrace(run.graph, run.replay, "");
  trace.mutable_end_ps()->RemoveLast();
  EXPECT_EQ(BreakDown(trace).error().message, "trace column end_ps has 9 entries, start_ps has 10");

  trace = BuildTrace(run.graph, run.replay, "");
  trace.set_iteration_ps(1000);
  EXPECT_EQ(BreakDown(trace).error().message,
            "trace event 0: runs from 0 to 10000 ps, outside of the iteration's 1000 ps");
}

TEST(LaneUseTest, BusyExposedAndWaitingByHand) {
  const testing::TinyRun run = TwoRankRun();
  const std::vector<RankLanes> ranks = UseOfLanes(run.graph, run.replay);
  const LaneUse& copy = ranks[1][static_cast<std::size_t>(Lane::kD2H)];
  EXPECT_EQ(copy.tasks, 1);
  EXPECT_EQ(copy.bytes, 2048);
  EXPECT_EQ(copy.busy_ps, 30'000);
  EXPECT_EQ(copy.exposed_ps, 10'000);
  EXPECT_EQ(copy.waiting_ps, 0);
  const LaneUse& dp = ranks[0][static_cast<std::size_t>(Lane::kDp)];
  EXPECT_EQ(dp.waiting_ps, 30'000);
  EXPECT_EQ(dp.exposed_ps, 10'500);
  const LaneUse& compute = ranks[1][static_cast<std::size_t>(Lane::kCompute)];
  EXPECT_EQ(compute.tasks, 3);
  EXPECT_EQ(compute.bytes, 0);
  EXPECT_EQ(compute.busy_ps, 24'500);
  EXPECT_EQ(compute.exposed_ps, 0);
}

}  // namespace
}  // namespace twinstep
