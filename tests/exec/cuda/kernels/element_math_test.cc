// What kernels compute for an element and where it lies, against the CPU backend; needs no GPU.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "exec/cpu/dropout.h"
#include "exec/cpu/exact_sum.h"
#include "exec/cpu/positions.h"
#include "exec/cuda/kernels/device_step.h"
#include "exec/cuda/kernels/divider.h"
#include "exec/cuda/kernels/exact_squares.h"
#include "exec/cuda/kernels/gates.h"
#include "exec/cuda/kernels/philox.h"
#include "exec/cuda/kernels/positions.h"

namespace twinstep {
namespace {

TEST(DividerTest, DividesAsDivisionDoes) {
  for (const std::int64_t divisor :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{688},
        std::int64_t{1} << 20, (std::int64_t{1} << 31) - 1, std::int64_t{1} << 31,
        std::int64_t{1} << 40}) {
    const cuda::Divider divider(divisor);
    for (const std::int64_t near : {std::int64_t{0}, divisor, 2 * divisor, 1000 * divisor,
                                    std::int64_t{1} << 31, std::int64_t{1} << 35}) {
      for (std::int64_t n = std::max<std::int64_t>(0, near - 2); n < near + 3; ++n) {
        EXPECT_EQ(divider.Divide(n), n / divisor) << n << " / " << divisor;
      }
    }
  }
}

TEST(DividerTest, AnyNumbers) {
  EXPECT_TRUE(rc::check([] {
    const auto divisor = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 31);
    const auto n = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 31);
    RC_ASSERT(cuda::Divider(divisor).Divide(n) == n / divisor);
  }));
}

TEST(PhiloxTest, MasksEqualTheCpus) {
  const StepValues step{.step = (std::int64_t{3} << 32) + 5,
                        .hidden_dropout = 0.3,
                        .attention_dropout = 0.6,
                        .seed = 0x123456789abcdef};
  const cuda::DeviceStep device = cuda::MakeDeviceStep(step);
  for (const DropoutSite site : {DropoutSite::kAttentionProbabilities, DropoutSite::kMlpResidual}) {
    constexpr std::int64_t kLayer = 7, kSample = 11, kPosition = 1000, kHead = 3, kCount = 48;
    const DropoutCounter counter(step, site, kLayer);
    std::array<std::uint8_t, kCount> expected;
    counter.Draw(kSample, kPosition, kHead, 0, kCount, expected.data());
    const std::size_t pair = site == DropoutSite::kAttentionProbabilities ? 1 : 0;
    EXPECT_EQ(device.scale[pair], counter.scale());
    const std::uint64_t key =
        cuda::DropoutKey(step.seed, step.step, static_cast<std::uint32_t>(site), kLayer);
    const cuda::DropoutRow row{kSample, kPosition, kHead};
    const auto check = [&]<int kRun>() {
      for (std::int64_t first = 0; first < kCount; first += kRun) {
        bool keep[kRun];
        cuda::DrawKeep(key, device.threshold[pair], row, first, keep);
        for (int i = 0; i < kRun; ++i) {
          EXPECT_EQ(keep[i], expected[static_cast<std::size_t>(first + i)] != 0);
        }
      }
    };
    check.operator()<1>();
    check.operator()<2>();
    check.operator()<4>();
    check.operator()<8>();
  }
}

TEST(PositionsTest, EqualTheCpus) {
  for (const std::int64_t count : {1, 2, 3}) {
    const std::int64_t sequence = 10 * 2 * count;
    for (std::int64_t index = 0; index < count; ++index) {
      const LocalPositions expected(sequence, index, count);
      const cuda::Positions positions = cuda::MakePositions(sequence, index, count);
      for (std::int64_t i = 0; i < sequence / count; ++i) {
        EXPECT_EQ(positions.Global(i), expected.Global(i));
      }
      ForEachGatheredRun(sequence, count, [&](const PositionRun& run) {
        for (std::int64_t i = 0; i < run.length; ++i) {
          EXPECT_EQ(cuda::GatheredPosition(positions, run.local + i), run.global + i);
        }
        if (count > 1) {
          EXPECT_EQ(cuda::GatheredPiece(run.global / run.length, count), run.local / run.length);
        }
      });
      for (const bool sequence_parallel : {false, true}) {
        const TaskPlace place{.tp = 1,
                              .tensor_parallel = 2,
                              .cp = index,
                              .context_parallel = count,
                              .micro_batch_size = 3,
                              .sequence_length = sequence,
                              .sequence_parallel = sequence_parallel,
                              .first_sample = 6};
        const std::int64_t rows = 3 * sequence / count / (sequence_parallel ? 2 : 1);
        const TokenRows cpu(place, rows);
        const cuda::TokenRows gpu = cuda::MakeTokenRows(place, rows);
        for (std::int64_t i = 0; i < rows; ++i) {
          EXPECT_EQ(gpu.Sample(i), cpu.Sample(i));
          EXPECT_EQ(gpu.Position(i), cpu.Position(i));
        }
      }
    }
  }
}

// The sum of squares as a block makes it: bins, and their totals.
cuda::ExactLimbs BinnedSum(const std::vector<float>& values) {
  std::array<cuda::Limb, cuda::kBins> low{}, high{};
  for (const float x : values) {
    const cuda::BinnedSquare square = cuda::BinSquare(std::bit_cast<std::uint32_t>(x));
    const auto bin = static_cast<std::size_t>(square.bin);
    low[bin] += square.addend;
    if (low[bin] < square.addend) ++high[bin];
  }
  cuda::ExactLimbs total{};
  for (int bin = 0; bin < cuda::kBins; ++bin) {
    const auto at = static_cast<std::size_t>(bin);
    cuda::AddExact(total, cuda::BinTotal(bin, high[at], low[at]));
  }
  return total;
}

void ExpectSameSum(const std::vector<float>& values) {
  std::vector<double> squares;
  for (const float x : values) squares.push_back(double{x} * double{x});
  ExactSum expected;
  expected.Add(squares);
  const cuda::ExactLimbs sum = BinnedSum(values);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sum.limbs[i], expected.limbs()[i]) << "limb " << i << " of " << values.size();
  }
}

TEST(ExactSquaresTest, EveryExponentAlone) {
  for (int exponent = -149; exponent < 128; ++exponent) {
    const float power = std::ldexp(1.0f, exponent);
    for (const float factor : {1.0f, 1.25f, 1.9999999f, -1.3333333f}) {
      ExpectSameSum({power * factor});
    }
  }
}

TEST(ExactSquaresTest, AnyNumbersTogether) {
  std::mt19937 generator(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values(300);
    // Below 2^63: above, single squares overflow.
    for (float& x : values) {
      const auto bits = static_cast<std::uint32_t>(generator());
      x = std::bit_cast<float>(bits % (190u << 23) | (bits & 0x80000000u));
    }
    ExpectSameSum(values);
  }
}

TEST(ExactSquaresTest, TooLargeSticks) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                        std::numeric_limits<float>::max(), 0x1p64f}) {
    ExpectSameSum({1.0f, x, 3.0f});
  }
  // Squares that fit one by one.
  ExpectSameSum({0x1.fffffep63f, 0x1.fffffep63f});
  ExpectSameSum({0x1.fffffep63f});
}

TEST(ExactSquaresTest, ABinHoldsWhatItPromises) {
  const std::vector<float> values(cuda::kSquaresPerBin, 0x1.fffffep3f);
  const cuda::BinnedSquare square = cuda::BinSquare(std::bit_cast<std::uint32_t>(values[0]));
  EXPECT_LE(square.addend, std::numeric_limits<cuda::Limb>::max() / cuda::kSquaresPerBin);
  ExpectSameSum(values);
}

TEST(GatesTest, DerivativesEqualDifferences) {
  for (double u = -6; u <= 6; u += 0.37) {
    constexpr double kStep = 1e-6;
    const auto difference = [u](auto gate) {
      const double above = u + kStep, below = u - kStep;
      double high, low;
      gate.Apply(&above, &high);
      gate.Apply(&below, &low);
      return (high - low) / (2 * kStep);
    };
    const double in[2] = {1.5, u};
    double gradient;
    cuda::GeluGradient::Apply(in, &gradient);
    EXPECT_NEAR(gradient, 1.5 * difference(cuda::Gelu{}), 1e-8);
    cuda::SiluGradient::Apply(in, &gradient);
    EXPECT_NEAR(gradient, 1.5 * difference(cuda::Silu{}), 1e-8);
  }
}

TEST(GatesTest, FarInputsStayFinite) {
  for (const float u : {-1e4f, -200.0f, 200.0f, 1e4f}) {
    float y;
    cuda::Gelu::Apply(&u, &y);
    EXPECT_NEAR(y, u > 0 ? u : 0.0f, 1e-30f);
    cuda::Silu::Apply(&u, &y);
    EXPECT_NEAR(y, u > 0 ? u : 0.0f, 1e-30f);
    const float in[2] = {1.0f, u};
    cuda::GeluGradient::Apply(in, &y);
    EXPECT_NEAR(y, u > 0 ? 1.0f : 0.0f, 1e-6f);
    cuda::SiluGradient::Apply(in, &y);
    EXPECT_NEAR(y, u > 0 ? 1.0f : 0.0f, 1e-6f);
  }
}

}  // namespace
}  // namespace twinstep
