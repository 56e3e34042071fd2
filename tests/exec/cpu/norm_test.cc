#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

Values Forward(std::int64_t n, std::int64_t h, bool rms, const Values& x, const Values& gamma,
               const Values& beta) {
  const Op op{.shape = MakeShape(OpCode::kNormForward, {n, h}, rms ? unsigned{kRmsNorm} : 0u)};
  if (rms) return RunFp64(op, {x, gamma}, {n * h})[0];
  return RunFp64(op, {x, gamma, beta}, {n * h})[0];
}

std::vector<Values> Backward(std::int64_t n, std::int64_t h, bool rms, const Values& dy,
                             const Values& x, const Values& gamma) {
  const Op op{.shape = MakeShape(OpCode::kNormBackward, {n, h}, rms ? unsigned{kRmsNorm} : 0u)};
  return RunFp64(
      op, {dy, x, gamma},
      rms ? std::vector<std::int64_t>{n * h, h} : std::vector<std::int64_t>{n * h, h, h});
}

TEST(NormTest, ForwardEqualsDefinition) {
  for (const bool rms : {false, true}) {
    constexpr std::int64_t kRows = 3, kWidth = 37;
    Values x = Random(kRows * kWidth, 1);
    for (double& v : x) v = 3 * v + 2;
    const Values gamma = Random(kWidth, 2), beta = Random(kWidth, 3);
    Values expected;
    for (std::int64_t i = 0; i < kRows; ++i) {
      const Values row = TakeRows(x, kWidth, {i});
      double mean = 0, square = 0;
      for (const double v : row) mean += v / kWidth;
      if (rms) mean = 0;
      for (const double v : row) square += (v - mean) * (v - mean) / kWidth;
      for (std::size_t j = 0; j < row.size(); ++j) {
        expected.push_back((row[j] - mean) / std::sqrt(square + 1e-5) * gamma[j] +
                           (rms ? 0 : beta[j]));
      }
    }
    EXPECT_LT(MaxDifference(Forward(kRows, kWidth, rms, x, gamma, beta), expected), 1e-13);
  }
}

TEST(NormTest, GradientsEqualFiniteDifferences) {
  for (const bool rms : {false, true}) {
    for (const std::int64_t h : {5, 35}) {
      constexpr std::int64_t kRows = 4;
      const Values x = Random(kRows * h, 1), gamma = Random(h, 2), beta = Random(h, 3);
      const Values dy = Random(kRows * h, 4);
      const std::vector<Values> g = Backward(kRows, h, rms, dy, x, gamma);
      const auto loss = [&](const Values& at, const Values& scale, const Values& shift) {
        return Dot(Forward(kRows, h, rms, at, scale, shift), dy);
      };
      ExpectGradient([&](const Values& v) { return loss(v, gamma, beta); }, x, g[0]);
      ExpectGradient([&](const Values& v) { return loss(x, v, beta); }, gamma, g[1]);
      if (!rms) ExpectGradient([&](const Values& v) { return loss(x, gamma, v); }, beta, g[2]);
    }
  }
}

TEST(NormTest, ResidualIsAddedAndGradientsAccumulate) {
  constexpr std::int64_t kRows = 3, kWidth = 20;
  const Values x = Random(60, 1), gamma = Random(20, 2), dy = Random(60, 3),
               residual = Random(60, 4);
  const std::vector<Values> g = Backward(kRows, kWidth, false, dy, x, gamma);
  Buffer dy_buffer(dy, Dtype::kFp64), x_buffer(x, Dtype::kFp64), gamma_buffer(gamma, Dtype::kFp64),
      residual_buffer(residual, Dtype::kFp64), dgamma(Random(20, 5), Dtype::kFp64),
      dbeta(Random(20, 6), Dtype::kFp64), dx = Buffer::Poisoned(60, Dtype::kFp64);
  const Op op{.shape = MakeShape(OpCode::kNormBackward, {kRows, kWidth},
                                 kHasResidual | kAccumulateGradient)};
  RunOn(op, {&dy_buffer, &x_buffer, &gamma_buffer, &residual_buffer, &dgamma, &dbeta},
        {&dx, &dgamma, &dbeta});
  Values expected_dx = g[0], expected_dgamma = g[1], expected_dbeta = g[2];
  AddTo(expected_dx, residual);
  AddTo(expected_dgamma, Random(20, 5));
  AddTo(expected_dbeta, Random(20, 6));
  EXPECT_LT(MaxDifference(dx.values(), expected_dx), 1e-14);
  EXPECT_LT(MaxDifference(dgamma.values(), expected_dgamma), 1e-14);
  EXPECT_LT(MaxDifference(dbeta.values(), expected_dbeta), 1e-14);
}

// Sequence-parallel shards: rows are independent, the shards' weight gradients add up.
TEST(NormTest, SequenceShardsEqualWhole) {
  constexpr std::int64_t kRows = 6, kWidth = 21;
  const Values x = Random(kRows * kWidth, 1), gamma = Random(kWidth, 2),
               dy = Random(kRows * kWidth, 3);
  const std::vector<Values> whole = Backward(kRows, kWidth, false, dy, x, gamma);
  Values dx, dgamma(kWidth), dbeta(kWidth);
  for (const std::int64_t shard : {0, 1, 2}) {
    const std::vector<Values> part = Backward(2, kWidth, false, TakeRows(dy, 2 * kWidth, {shard}),
                                              TakeRows(x, 2 * kWidth, {shard}), gamma);
    dx = Concatenate({dx, part[0]});
    AddTo(dgamma, part[1]);
    AddTo(dbeta, part[2]);
  }
  EXPECT_EQ(dx, whole[0]);
  EXPECT_LT(MaxDifference(dgamma, whole[1]), 1e-12);
  EXPECT_LT(MaxDifference(dbeta, whole[2]), 1e-12);
}

}  // namespace
}  // namespace twinstep
