#include "sim/evaluate/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace twinstep {
namespace {

TEST(StatisticsTest, SummaryOfFourErrors) {
  const Pair pairs[] = {{110, 100}, {95, 100}, {130, 100}, {99, 100}};
  const ErrorSummary summary = Summarize(pairs);
  EXPECT_EQ(summary.count, 4u);
  EXPECT_NEAR(summary.median, 0.075, 1e-12);
  EXPECT_NEAR(summary.worst, 0.30, 1e-12);
  EXPECT_NEAR(summary.mean, 0.115, 1e-12);
  EXPECT_NEAR(summary.bias, 0.085, 1e-12);
}

TEST(StatisticsTest, OddCountsHaveAMiddle) {
  const Pair pairs[] = {{110, 100}, {95, 100}, {100, 100}};
  EXPECT_NEAR(Summarize(pairs).median, 0.05, 1e-12);
}

TEST(StatisticsTest, NothingIsNoError) { EXPECT_EQ(Summarize({}).count, 0u); }

TEST(StatisticsTest, SpearmanFollowsRanksOnly) {
  const Pair rising[] = {{1, 10}, {5, 11}, {100, 12}};
  EXPECT_NEAR(Spearman(rising), 1, 1e-12);
  const Pair falling[] = {{100, 10}, {5, 11}, {1, 12}};
  EXPECT_NEAR(Spearman(falling), -1, 1e-12);
  // d^2 = 0, 1, 1, 0: 1 - 6 x 2 / (4 x 15).
  const Pair swapped[] = {{1, 1}, {3, 2}, {2, 3}, {4, 4}};
  EXPECT_NEAR(Spearman(swapped), 0.8, 1e-12);
}

TEST(StatisticsTest, SpearmanOfTies) {
  // Ranks 0.5, 0.5, 2 against 0, 1, 2: covariance 1.5, variances 1.5 and 2.
  const Pair tied[] = {{1, 1}, {1, 2}, {2, 3}};
  EXPECT_NEAR(Spearman(tied), 1.5 / std::sqrt(3.0), 1e-12);
  const Pair constant[] = {{1, 1}, {1, 2}, {1, 3}};
  EXPECT_TRUE(std::isnan(Spearman(constant)));
  EXPECT_TRUE(std::isnan(Spearman(std::span<const Pair>(tied, 2))));
}

TEST(StatisticsTest, OrderCountsDistinctPairsOnly) {
  const Pair pairs[] = {{5, 100}, {6, 101}, {4, 110}};
  const PairOrder order = CountOrder(pairs, 0.02);
  EXPECT_EQ(order.total, 2u);  // 100 and 101 are one per cent apart.
  EXPECT_EQ(order.right, 0u);
}

}  // namespace
}  // namespace twinstep
