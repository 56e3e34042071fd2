#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

constexpr std::int64_t kRows = 3, kWidth = 19, kSize = kRows * kWidth;

Op MakeOp(OpCode code, unsigned flags = 0) {
  return {.shape = MakeShape(code, {kRows, kWidth}, flags)};
}

Values Inputs(std::uint32_t seed, std::int64_t size = kSize) {
  Values x = Random(size, seed);
  for (double& v : x) v *= 4;
  return x;
}

Values Map(const Values& x, const std::function<double(double)>& function) {
  Values y;
  for (const double v : x) y.push_back(function(v));
  return y;
}

double PlainGelu(double u) {
  return u / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)));
}
double PlainSilu(double u) { return u / (1 + std::exp(-u)); }

TEST(ElementwiseTest, ActivationsEqualTheirDefinitions) {
  const Values u = Inputs(1);
  const Values gelu = RunFp64(MakeOp(OpCode::kActivationForward), {u}, {kSize})[0];
  EXPECT_LT(MaxDifference(gelu, Map(u, PlainGelu)), 1e-14);
  const Values relu = RunFp64(MakeOp(OpCode::kActivationForward, kRelu), {u}, {kSize})[0];
  EXPECT_EQ(relu, Map(u, [](double x) { return std::max(x, 0.0); }));
}

TEST(ElementwiseTest, ActivationGradientsEqualFiniteDifferences) {
  const Values u = Inputs(1), dy = Inputs(2);
  for (const unsigned flags : {0u, unsigned{kRelu}}) {
    const Values du = RunFp64(MakeOp(OpCode::kActivationBackward, flags), {dy, u}, {kSize})[0];
    ExpectGradient(
        [&](const Values& x) {
          return Dot(RunFp64(MakeOp(OpCode::kActivationForward, flags), {x}, {kSize})[0], dy);
        },
        u, du);
  }
}

Values Gated(const Values& gate_up) {
  const Values silu = RunFp64(MakeOp(OpCode::kSiluForward), {gate_up}, {kSize})[0];
  return RunFp64(MakeOp(OpCode::kMulForward), {silu, gate_up}, {kSize})[0];
}

TEST(ElementwiseTest, GatedMlpEqualsItsDefinition) {
  const Values gate_up = Inputs(3, 2 * kSize);
  const Values gate = TakeColumns(gate_up, 2 * kWidth, 0, kWidth);
  Values expected = Map(gate, PlainSilu);
  const Values up = TakeColumns(gate_up, 2 * kWidth, kWidth, 2 * kWidth);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= up[i];
  EXPECT_LT(MaxDifference(Gated(gate_up), expected), 1e-14);
}

TEST(ElementwiseTest, GatedMlpGradientEqualsFiniteDifferences) {
  const Values gate_up = Inputs(3, 2 * kSize), grad = Inputs(4);
  const Values silu_values = RunFp64(MakeOp(OpCode::kSiluForward), {gate_up}, {kSize})[0];
  Buffer dact(grad, Dtype::kFp64), silu(silu_values, Dtype::kFp64), input(gate_up, Dtype::kFp64);
  Buffer dsilu = Buffer::Poisoned(kSize, Dtype::kFp64);
  Buffer dgate_up = Buffer::Poisoned(2 * kSize, Dtype::kFp64);
  RunOn(MakeOp(OpCode::kMulBackward), {&dact, &silu, &input}, {&dsilu, &dgate_up});
  RunOn(MakeOp(OpCode::kSiluBackward), {&dsilu, &input, &dgate_up}, {&dgate_up});
  ExpectGradient([&](const Values& x) { return Dot(Gated(x), grad); }, gate_up, dgate_up.values());
}

TEST(ElementwiseTest, AddsWithAndWithoutBias) {
  const Values a = Inputs(1), b = Inputs(2), bias = Inputs(3, kWidth);
  const Values sum = RunFp64(MakeOp(OpCode::kAdd), {a, b}, {kSize})[0];
  const Values biased = RunFp64(MakeOp(OpCode::kAdd, kHasBias), {a, b, bias}, {kSize})[0];
  for (std::size_t i = 0; i < sum.size(); ++i) {
    EXPECT_EQ(sum[i], a[i] + b[i]);
    EXPECT_EQ(biased[i], a[i] + bias[i % kWidth] + b[i]);
  }
}

TEST(ElementwiseTest, Accumulates) {
  Buffer x(Values{1, 2, 3}, Dtype::kFp32), sum(Values{10, 20, 30}, Dtype::kFp32);
  RunOn({.shape = MakeShape(OpCode::kAccumulate, {3}, 0, Dtype::kFp32)}, {&x, &sum}, {&sum});
  EXPECT_EQ(sum.values(), (Values{11, 22, 33}));
}

TEST(ElementwiseTest, CopiesBytes) {
  Buffer from(Values{1, 2, 3}, Dtype::kBf16), to(Values{7, 7, 7}, Dtype::kBf16);
  RunOn({.shape = MakeShape(OpCode::kCopyOnDevice, {4}, 0, Dtype::kBf16)}, {&from}, {&to});
  EXPECT_EQ(to.values(), (Values{1, 2, 7}));
}

}  // namespace
}  // namespace twinstep
