#include "traces/interval_set.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bitset>
#include <utility>
#include <vector>

namespace twinstep {
namespace {

constexpr int kHorizon = 64;
using Covered = std::bitset<kHorizon>;
using Pairs = std::vector<std::pair<int, int>>;

rc::Gen<Pairs> ArbitraryPairs() {
  const auto time = rc::gen::inRange(0, kHorizon);
  return rc::gen::container<Pairs>(rc::gen::pair(time, time));
}

std::vector<Interval> ToIntervals(const Pairs& pairs) {
  std::vector<Interval> result;
  for (const auto& [begin, end] : pairs) result.push_back({begin, end});
  return result;
}

// Instant by instant.
Covered BruteForce(const Pairs& pairs) {
  Covered covered;
  for (const auto& [begin, end] : pairs) {
    for (int t = begin; t < end; ++t) covered.set(static_cast<std::size_t>(t));
  }
  return covered;
}

TEST(IntervalSetTest, MergesWhatOverlapsOrTouches) {
  const IntervalSet set({{5, 20}, {0, 10}, {20, 21}, {30, 30}, {40, 50}});
  EXPECT_EQ(set.intervals(), (std::vector<Interval>{{0, 21}, {40, 50}}));
  EXPECT_EQ(set.Length(), 31);
}

TEST(IntervalSetTest, OverlapAndUnion) {
  const IntervalSet a({{0, 10}, {20, 30}});
  const IntervalSet b({{5, 25}});
  EXPECT_EQ(a.Overlap(b), 10);
  EXPECT_EQ(a.Union(b).intervals(), (std::vector<Interval>{{0, 30}}));
  EXPECT_EQ(IntervalSet().Overlap(a), 0);
}

RC_GTEST_PROP(IntervalSetPropertyTest, EqualsSetsOfInstants, ()) {
  const auto a = *ArbitraryPairs();
  const auto b = *ArbitraryPairs();
  const IntervalSet x(ToIntervals(a)), y(ToIntervals(b));
  const Covered p = BruteForce(a), q = BruteForce(b);
  RC_ASSERT(x.Length() == static_cast<Picoseconds>(p.count()));
  Picoseconds one_by_one = 0;
  for (const Interval& interval : y.intervals()) one_by_one += x.Overlap(interval);
  RC_ASSERT(one_by_one == x.Overlap(y));
  RC_ASSERT(x.Overlap(y) == static_cast<Picoseconds>((p & q).count()));
  RC_ASSERT(x.Union(y).Length() == static_cast<Picoseconds>((p | q).count()));
}

}  // namespace
}  // namespace twinstep
