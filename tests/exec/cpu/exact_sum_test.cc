#include "exec/cpu/exact_sum.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace twinstep {
namespace {

ExactSum SumOf(const std::vector<double>& addends) {
  ExactSum sum;
  sum.Add(addends);
  return sum;
}

// Magnitudes over all that the sum can hold.
std::vector<double> WideAddends(std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  std::vector<double> addends;
  for (int i = 0; i < count; ++i) {
    const double mantissa = 1 + std::ldexp(static_cast<double>(random() >> 12), -52);
    addends.push_back(std::ldexp(mantissa, static_cast<int>(random() % 190) - 70));
  }
  return addends;
}

RC_GTEST_PROP(ExactSumTest, OrderAndGroupingDoNotMatter, (std::uint64_t seed)) {
  std::vector<double> addends = WideAddends(seed, 100);
  const ExactSum whole = SumOf(addends);
  std::mt19937_64 random(seed);
  std::shuffle(addends.begin(), addends.end(), random);
  const auto cut = addends.begin() + static_cast<std::ptrdiff_t>(random() % addends.size());
  ExactSum second = SumOf({cut, addends.end()});
  second.Add(SumOf({addends.begin(), cut}));
  RC_ASSERT(second.limbs() == whole.limbs());
}

RC_GTEST_PROP(ExactSumTest, EqualsLongDouble, (std::uint64_t seed)) {
  std::vector<double> addends = WideAddends(seed, 50);
  std::sort(addends.begin(), addends.end());
  long double expected = 0;
  for (const double x : addends) expected += x;
  const double sum = SumOf(addends).value();
  RC_ASSERT(std::abs(sum - expected) <= 4e-16L * expected);
}

TEST(ExactSumTest, SmallAddendsAreNotLostBesideLargeOnes) {
  const std::vector<double> addends{0x1p100, 0x1p-128, 0x1p-128};
  EXPECT_EQ(SumOf(addends).limbs(), (ExactSum::Limbs{2, 0, 0, std::uint64_t{1} << 36}));
  EXPECT_EQ(SumOf({0x1p-129}).limbs(), ExactSum::Limbs{});  // Less than a unit.
  EXPECT_EQ(SumOf({0x1.fp-127}).limbs(), (ExactSum::Limbs{3, 0, 0, 0}));
  EXPECT_EQ(SumOf({0.0, std::numeric_limits<double>::denorm_min()}).limbs(), ExactSum::Limbs{});
}

TEST(ExactSumTest, EveryPowerOfTwoHasItsBit) {
  for (int exponent = -128; exponent < 128; ++exponent) {
    const ExactSum sum = SumOf({std::ldexp(1.0, exponent)});
    ExactSum::Limbs expected{};
    expected[static_cast<std::size_t>((exponent + 128) / 64)] = std::uint64_t{1}
                                                                << (exponent + 128) % 64;
    EXPECT_EQ(sum.limbs(), expected) << exponent;
    EXPECT_EQ(sum.value(), std::ldexp(1.0, exponent));
  }
}

TEST(ExactSumTest, CarriesGoThroughAllLimbs) {
  ExactSum sum = SumOf({0x1p-128});
  // 2^127 - 2^-128, in pieces of 51 bits.
  std::vector<double> pieces;
  for (int exponent = -128; exponent < 127; exponent += 51) {
    pieces.push_back(std::ldexp(std::ldexp(1.0, 51) - 1, exponent));
  }
  sum.Add(pieces);
  EXPECT_EQ(sum.value(), 0x1p127);
}

TEST(ExactSumTest, OverflowAndNanStick) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {nan, double{INFINITY}, 0x1p128, 1e300}) {
    ExactSum sum = SumOf({1, bad, 2});
    EXPECT_TRUE(sum.overflowed()) << bad;
    EXPECT_TRUE(std::isnan(sum.value()));
    sum.Add(SumOf({1}));
    EXPECT_TRUE(sum.overflowed());
    ExactSum other = SumOf({1});
    other.Add(sum);
    EXPECT_EQ(other.limbs(), sum.limbs());
  }
  EXPECT_TRUE(SumOf({0x1p127, 0x1p127}).overflowed());
  ExactSum half = SumOf({0x1p127});
  EXPECT_FALSE(half.overflowed());
  half.Add(SumOf({0x1p127}));
  EXPECT_TRUE(half.overflowed());
}

}  // namespace
}  // namespace twinstep
