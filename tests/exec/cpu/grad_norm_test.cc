#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

// Four limbs as the bytes of four doubles.
Buffer Accumulator() { return Buffer::Poisoned(4, Dtype::kFp64); }

Op NormOp(std::int64_t elements, std::int64_t begin, std::int64_t end, unsigned flags = 0,
          Dtype dtype = Dtype::kFp32) {
  return {.shape = MakeShape(OpCode::kGradNorm, {elements, begin, end}, flags, dtype)};
}

double Coefficient(Buffer& accumulator, double clip_norm) {
  Buffer coefficient = Buffer::Poisoned(1, Dtype::kFp64);
  RunOn({.shape = MakeShape(OpCode::kClipCoefficient, {}), .step = {.clip_norm = clip_norm}},
        {&accumulator}, {&coefficient});
  return coefficient.values()[0];
}

double NormOf(Buffer& accumulator) {
  // A clip below the norm makes the coefficient clip / (norm + 1e-6).
  return 1e-9 / Coefficient(accumulator, 1e-9) - 1e-6;
}

TEST(GradNormTest, IsTheNorm) {
  Buffer gradient(Values{3, -4, 12, 0}, Dtype::kFp32), sum = Accumulator();
  RunOn(NormOp(4, 0, 4), {&gradient}, {&sum});
  EXPECT_NEAR(NormOf(sum), 13, 1e-13);
  EXPECT_DOUBLE_EQ(Coefficient(sum, 6.5), 6.5 / (13 + 1e-6));
  EXPECT_EQ(Coefficient(sum, 14), 1);
}

TEST(GradNormTest, CountsOnlyItsRange) {
  Buffer gradient(Values{100, 3, 4, 100}, Dtype::kFp32), sum = Accumulator();
  RunOn(NormOp(4, 1, 3), {&gradient}, {&sum});
  EXPECT_NEAR(NormOf(sum), 5, 1e-13);
}

// Shards, in any order, give the same bits as the whole.
TEST(GradNormTest, ShardsInAnyOrderEqualWhole) {
  constexpr std::int64_t kElements = 5000, kBegin = 7, kEnd = 4900;
  Values values = Random(kElements, 1);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= std::pow(10, -static_cast<int>(i % 9));
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kFp16, Dtype::kFp32, Dtype::kFp64}) {
    Buffer whole(values, dtype), expected = Accumulator();
    RunOn(NormOp(kElements, kBegin, kEnd, 0, dtype), {&whole}, {&expected});
    for (const std::vector<std::int64_t>& order :
         std::vector<std::vector<std::int64_t>>{{0, 1, 2, 3}, {3, 1, 0, 2}}) {
      Buffer sum = Accumulator();
      bool first = true;
      for (const std::int64_t shard : order) {
        Buffer part(TakeRows(whole.values(), kElements / 4, {shard}), dtype);
        Op op = NormOp(kElements, kBegin, kEnd, first ? 0u : unsigned{kAccumulateGradient}, dtype);
        op.shape.index = static_cast<std::uint16_t>(shard);
        op.shape.count = 4;
        RunOn(op, {&part, &sum}, {&sum});
        first = false;
      }
      EXPECT_EQ(sum.bytes(), expected.bytes());
    }
    long double squares = 0;
    const Values stored = whole.values();
    for (std::int64_t i = kBegin; i < kEnd; ++i) {
      const long double x = stored[static_cast<std::size_t>(i)];
      squares += x * x;
    }
    EXPECT_NEAR(NormOf(expected) / static_cast<double>(std::sqrt(squares)), 1, 1e-12);
  }
}

TEST(GradNormTest, BadGradientsGiveNan) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), double{INFINITY}, 1e25}) {
    Buffer gradient(Values{1, bad, 1}, Dtype::kFp32), sum = Accumulator();
    RunOn(NormOp(3, 0, 3), {&gradient}, {&sum});
    EXPECT_TRUE(std::isnan(Coefficient(sum, 1))) << bad;
  }
}

}  // namespace
}  // namespace twinstep
