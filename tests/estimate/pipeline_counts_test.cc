#include "sim/estimate/pipeline_counts.h"

#include <gtest/gtest.h>

#include "tests/estimate/paper_plans.h"

namespace twinstep {
namespace {

ResolvedPlan Pipeline(Schedule schedule, std::int64_t p, std::int64_t v, std::int64_t m) {
  ResolvedPlan plan;
  plan.schedule = schedule;
  plan.p = p;
  plan.v = v;
  plan.m = m;
  return plan;
}

// Table 10: p = 4, v = 2, m = 8.
TEST(PipelineCountsTest, Table10) {
  const ResolvedPlan plan = Pipeline(INTERLEAVED_1F1B, 4, 2, 8);
  EXPECT_EQ(WarmupForwards(plan, 0), 10);
  EXPECT_EQ(LivingBlocks(plan, 0), 11);
  EXPECT_EQ(BlocksOnHost(plan, 0), 9);
  EXPECT_EQ(HostBuffers(plan, 0), 10);
  EXPECT_EQ(OverlappedCopies(plan), 8 * 2 + 4 - 2);
  EXPECT_EQ(P2pTransfers(plan), 4 * 8 * 2 - 2 * 8 + 2 * 4 - 2);
}

TEST(PipelineCountsTest, FormulasOfEveryRank) {
  for (const std::int64_t p : {3, 4, 8, 16}) {
    for (const std::int64_t v : {2, 3, 5}) {
      const ResolvedPlan plan = Pipeline(INTERLEAVED_1F1B, p, v, 3 * p);
      for (std::int64_t r = 0; r < p; ++r) {
        EXPECT_EQ(WarmupForwards(plan, r), 2 * (p - r - 1) + (v - 1) * p);
        EXPECT_EQ(LivingBlocks(plan, r), v * p + p - 2 * r - 1);
        EXPECT_EQ(BlocksOnHost(plan, r), v * p + p - 2 * r - 3);
        EXPECT_EQ(HostBuffers(plan, r), v * p + p - 2 * r - 2);
      }
    }
  }
}

TEST(PipelineCountsTest, OtherSchedules) {
  const ResolvedPlan one = Pipeline(ONE_F_ONE_B, 4, 1, 6);
  const ResolvedPlan gpipe = Pipeline(GPIPE, 4, 1, 6);
  for (std::int64_t r = 0; r < 4; ++r) {
    EXPECT_EQ(WarmupForwards(one, r), 4 - r - 1);
    EXPECT_EQ(LivingBlocks(one, r), 4 - r);
    EXPECT_EQ(LivingBlocks(gpipe, r), 6);
  }
  EXPECT_EQ(LivingBlocks(Pipeline(ONE_F_ONE_B, 4, 1, 2), 0), 2);       // min(m, p - r).
  EXPECT_EQ(LivingBlocks(Pipeline(INTERLEAVED_1F1B, 4, 2, 4), 3), 8);  // m = p: all warm-up.
  const ResolvedPlan alone = Pipeline(ONE_F_ONE_B, 1, 1, 6);
  EXPECT_EQ(LivingBlocks(alone, 0), 1);
  EXPECT_EQ(OverlappedCopies(alone), 0);
  EXPECT_EQ(P2pTransfers(alone), 0);
}

TEST(PipelineCountsTest, Bubble) {
  EXPECT_DOUBLE_EQ(BubbleFraction(Pipeline(INTERLEAVED_1F1B, 8, 5, 32)), 7.0 / 160);
  EXPECT_DOUBLE_EQ(BubbleFraction(Pipeline(ONE_F_ONE_B, 1, 1, 32)), 0);
}

}  // namespace
}  // namespace twinstep
