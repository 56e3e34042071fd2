// Medians, quartiles and the outlier rule, exactly.
#include "exec/profile/statistics.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace twinstep {
namespace {

TEST(QuantileTest, StraightLineBetweenTwoValues) {
  EXPECT_EQ(Quantile({7}, 0.25), 7);
  EXPECT_EQ(Quantile({1, 3}, 0.5), 2);
  EXPECT_EQ(Quantile({0, 10, 20, 30, 40}, 0), 0);
  EXPECT_EQ(Quantile({0, 10, 20, 30, 40}, 0.25), 10);
  EXPECT_EQ(Quantile({0, 10, 20, 30}, 0.25), 7.5);
  EXPECT_EQ(Quantile({0, 10, 20, 30}, 1), 30);
}

TEST(SummarizeTest, MedianAndSpreadOfWhatIsKept) {
  const Summary odd = Summarize({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.kept, 3u);
  EXPECT_EQ(odd.dropped, 0u);
  EXPECT_EQ(odd.relative_spread, 0.5);  // Quartiles 1.5 and 2.5.
  EXPECT_EQ(Summarize({4, 1, 2, 3}).median, 2.5);
  const Summary one = Summarize({5});
  EXPECT_EQ(one.median, 5);
  EXPECT_EQ(one.relative_spread, 0);
  const Summary none = Summarize({});
  EXPECT_EQ(none.median, 0);
  EXPECT_EQ(none.kept, 0u);
}

// Both quartiles round to the number between the two.
TEST(SummarizeTest, NumbersThatRoundingTellsApartAreKept) {
  const double low = std::nextafter(1.0, 2), middle = std::nextafter(low, 2);
  const Summary summary = Summarize({low, std::nextafter(middle, 2)});
  EXPECT_EQ(summary.median, middle);
  EXPECT_EQ(summary.kept, 2u);
  EXPECT_EQ(summary.dropped, 0u);
}

TEST(SummarizeTest, TukeysFencesDropOutliersOnBothSides) {
  // Quartiles 11 and 13: fences at 8 and 16.
  const Summary summary = Summarize({10, 11, 11, 12, 12, 13, 13, 16, 16.1, 7.9, 12});
  EXPECT_EQ(summary.dropped, 2u);
  EXPECT_EQ(summary.kept, 9u);
  EXPECT_EQ(summary.median, 12);
  EXPECT_EQ(summary.mean, 110.0 / 9);
  // On the fence is not outside of it.
  EXPECT_EQ(Summarize({10, 11, 11, 12, 12, 13, 13, 16, 12}).dropped, 0u);
}

TEST(SummarizeTest, HundredfoldOutliersDoNotMoveTheMedian) {
  std::vector<double> values(100, 1.0);
  for (std::size_t i = 0; i < 20; ++i) values[5 * i] = 100;
  const Summary summary = Summarize(values);
  EXPECT_EQ(summary.median, 1);
  EXPECT_EQ(summary.dropped, 20u);
  EXPECT_EQ(summary.relative_spread, 0);
}

std::vector<double> RandomTimes() {
  const auto raw =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 100000)));
  return {raw.begin(), raw.end()};
}

RC_GTEST_PROP(SummarizeProperty, OrderDoesNotMatterAndScaleCarriesOver, ()) {
  const std::vector<double> values = RandomTimes();
  const Summary summary = Summarize(values);
  std::vector<double> reversed(values.rbegin(), values.rend());
  RC_ASSERT(Summarize(reversed).median == summary.median);
  std::vector<double> scaled = values;
  for (double& value : scaled) value *= 8;  // Exact in binary.
  RC_ASSERT(Summarize(scaled).median == 8 * summary.median);
  RC_ASSERT(Summarize(scaled).relative_spread == summary.relative_spread);
  RC_ASSERT(summary.kept + summary.dropped == values.size());
  RC_ASSERT(2 * summary.dropped <= values.size());  // Never the middle half.
  RC_ASSERT(summary.median >= *std::min_element(values.begin(), values.end()));
  RC_ASSERT(summary.median <= *std::max_element(values.begin(), values.end()));
}

TEST(RoundMeasuredTest, FiveDigits) {
  EXPECT_EQ(RoundMeasured(0), 0);
  EXPECT_NEAR(RoundMeasured(1.23456789e-5), 1.2346e-5, 1e-16);
  EXPECT_EQ(RoundMeasured(98765432.0), 98765000.0);
  EXPECT_EQ(RoundMeasured(1), 1);
}

}  // namespace
}  // namespace twinstep
