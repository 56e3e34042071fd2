#include "exec/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

TEST(VectorMathTest, ExpIsWithinTwoUnits) {
  for (double x = -86; x < 88.7; x += 0.00137) {
    const auto f = static_cast<float>(x);
    const double exact = std::exp(double{f});
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    ASSERT_NEAR(Exp(f), exact, 2 * unit) << f;
  }
  for (double x = -707; x < 709.7; x += 0.0137) {
    const long double exact = std::exp(static_cast<long double>(x));
    const long double unit = std::ldexp(1.0L, std::ilogb(exact) - 52);
    ASSERT_LE(std::abs(static_cast<long double>(Exp(x)) - exact), 2 * unit) << x;
  }
}

template <typename C>
void ExpectLimits() {
  constexpr C kInfinity = std::numeric_limits<C>::infinity();
  EXPECT_EQ(Exp(C{0}), 1);
  EXPECT_EQ(Exp(-kInfinity), 0);
  EXPECT_EQ(Exp(C{-10000}), 0);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(C{10000}), kInfinity);
  EXPECT_TRUE(std::isnan(Exp(std::numeric_limits<C>::quiet_NaN())));
  EXPECT_EQ(Sigmoid(C{-10000}), 0);
  EXPECT_EQ(Sigmoid(C{10000}), 1);
  EXPECT_EQ(Sigmoid(C{0}), C{0.5});
}

TEST(VectorMathTest, Limits) {
  ExpectLimits<float>();
  ExpectLimits<double>();
}

TEST(VectorMathTest, SumsAndMaximaOfAnyLength) {
  for (std::int64_t count = 0; count < 70; ++count) {
    const Values x = Random(count, 1);
    const auto value = [&x](std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
    double sum = 0, max = -INFINITY;
    for (const double v : x) {
      sum += v;
      max = std::max(max, v);
    }
    EXPECT_NEAR(LaneSum<double>(count, value), sum, 1e-14);
    EXPECT_EQ(LaneMax<double>(count, value), max);
  }
}

}  // namespace
}  // namespace twinstep
