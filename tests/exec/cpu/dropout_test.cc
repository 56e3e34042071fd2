#include "exec/cpu/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

constexpr double kProbability = 0.25;

StepValues Step(std::int64_t step = 2) {
  return {
      .step = step, .hidden_dropout = kProbability, .attention_dropout = kProbability, .seed = 77};
}

std::vector<std::uint8_t> Draw(const DropoutCounter& counter, std::int64_t sample,
                               std::int64_t position, std::int64_t head, std::int64_t first,
                               std::int64_t count) {
  std::vector<std::uint8_t> keep(static_cast<std::size_t>(count));
  counter.Draw(sample, position, head, first, count, keep.data());
  return keep;
}

// The published known answer of Philox 4x32-10 for the all-zero counter and key begins with
// 6627e8d5: the key is mixed by the same rounds from (seed, step, site, layer), so an independent
// implementation of the rounds must give the same masks.
struct Philox {
  std::uint32_t x[4];
  void Run(std::uint64_t key) {
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = 0xD2511F53ull * x[0], b = 0xCD9E8D57ull * x[2];
      const std::uint32_t next[4] = {
          static_cast<std::uint32_t>(b >> 32) ^ x[1] ^ k0, static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ x[3] ^ k1, static_cast<std::uint32_t>(a)};
      std::copy(next, next + 4, x);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
  }
};

TEST(DropoutTest, IsPhilox) {
  Philox zero{};
  zero.Run(0);
  EXPECT_EQ(zero.x[0], 0x6627e8d5u);
  EXPECT_EQ(zero.x[3], 0x9b00dbd8u);

  const DropoutCounter counter(Step(), DropoutSite::kMlpResidual, 5);
  Philox key{{2, 0, static_cast<std::uint32_t>(DropoutSite::kMlpResidual), 5}};
  key.Run(77);
  for (const std::uint32_t block : {0u, 1u, 33u}) {
    Philox word{{block, 9, 4, 1}};
    word.Run(key.x[0] | std::uint64_t{key.x[1]} << 32);
    const std::vector<std::uint8_t> keep = Draw(counter, 4, 9, 1, 4 * block, 4);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(keep[i], word.x[i] >= 0x40000000u) << block;
  }
}

TEST(DropoutTest, AnyRangeOfARowIsTheSame) {
  const DropoutCounter counter(Step(), DropoutSite::kAttentionResidual, 1);
  const std::vector<std::uint8_t> row = Draw(counter, 3, 8, 0, 0, 300);
  for (const std::int64_t first : {0, 1, 3, 64, 67, 130}) {
    for (const std::int64_t count : {1, 5, 64, 100}) {
      const std::vector<std::uint8_t> part = Draw(counter, 3, 8, 0, first, count);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), row.begin() + first)) << first;
    }
  }
}

TEST(DropoutTest, EveryCoordinateGivesAnotherMask) {
  std::set<std::vector<std::uint8_t>> masks;
  const auto add = [&masks](const DropoutCounter& counter, std::int64_t sample,
                            std::int64_t position, std::int64_t head) {
    EXPECT_TRUE(masks.insert(Draw(counter, sample, position, head, 0, 200)).second);
  };
  add(DropoutCounter(Step(), DropoutSite::kMlpResidual, 1), 0, 0, 0);
  add(DropoutCounter(Step(), DropoutSite::kMlpResidual, 2), 0, 0, 0);
  add(DropoutCounter(Step(), DropoutSite::kEmbedding, 1), 0, 0, 0);
  add(DropoutCounter(Step(3), DropoutSite::kMlpResidual, 1), 0, 0, 0);
  add(DropoutCounter(Step(), DropoutSite::kMlpResidual, 1), 1, 0, 0);
  add(DropoutCounter(Step(), DropoutSite::kMlpResidual, 1), 0, 1, 0);
  add(DropoutCounter(Step(), DropoutSite::kMlpResidual, 1), 0, 0, 1);
  StepValues other_seed = Step();
  other_seed.seed = 78;
  add(DropoutCounter(other_seed, DropoutSite::kMlpResidual, 1), 0, 0, 0);
}

// Mean, and correlation of neighbours in each direction, within four standard deviations.
TEST(DropoutTest, MasksAreFairAndUncorrelated) {
  const DropoutCounter counter(Step(), DropoutSite::kMlpResidual, 1);
  constexpr std::int64_t kRows = 400, kWidth = 500;
  std::vector<std::vector<std::uint8_t>> keep;
  for (std::int64_t i = 0; i < kRows; ++i)
    keep.push_back(Draw(counter, i / 20, i % 20, 0, 0, kWidth));
  const double n = kRows * kWidth, mean = 1 - kProbability, variance = mean * kProbability;
  double sum = 0, along_row = 0, along_column = 0;
  for (std::size_t i = 1; i < kRows; ++i) {
    for (std::size_t j = 1; j < kWidth; ++j) {
      const double x = keep[i][j] - mean;
      sum += x;
      along_row += x * (keep[i][j - 1] - mean);
      along_column += x * (keep[i - 1][j] - mean);
    }
  }
  EXPECT_LT(std::abs(sum), 4 * std::sqrt(n * variance));
  EXPECT_LT(std::abs(along_row), 4 * std::sqrt(n) * variance);
  EXPECT_LT(std::abs(along_column), 4 * std::sqrt(n) * variance);
}

TEST(DropoutTest, ProbabilitiesZeroAndOne) {
  StepValues step = Step();
  step.hidden_dropout = 0;
  const DropoutCounter none(step, DropoutSite::kMlpResidual, 0);
  EXPECT_EQ(Draw(none, 0, 0, 0, 0, 100), std::vector<std::uint8_t>(100, 1));
  EXPECT_EQ(none.scale(), 1);
  step.hidden_dropout = 1;
  const DropoutCounter all(step, DropoutSite::kMlpResidual, 0);
  EXPECT_EQ(Draw(all, 0, 0, 0, 0, 100), std::vector<std::uint8_t>(100, 0));
  EXPECT_EQ(all.scale(), 0);
}

// --- The operations.

constexpr std::int64_t kSamples = 2, kSequence = 12, kHidden = 10;

struct Masked {
  Values y, mask;
};

Op MakeOp(OpCode code, std::int64_t rows, const TaskPlace& place, unsigned flags = 0) {
  Op op{.shape = MakeShape(code, {rows, kHidden}, flags), .step = Step(), .place = place};
  op.shape.index = static_cast<std::uint16_t>(DropoutSite::kMlpResidual);
  return op;
}

Masked Forward(const Values& x, const TaskPlace& place) {
  const auto size = static_cast<std::int64_t>(x.size());
  Buffer input(x, Dtype::kFp64), y = Buffer::Poisoned(size, Dtype::kFp64);
  Buffer mask = Buffer::Poisoned(size, Dtype::kUint8);
  RunOn(MakeOp(OpCode::kDropoutForward, size / kHidden, place), {&input}, {&y, &mask});
  return {y.values(), mask.values()};
}

TaskPlace WholePlace() {
  return {
      .micro_batch_size = kSamples, .sequence_length = kSequence, .first_sample = 4, .block = 3};
}

TEST(DropoutTest, ScalesWhatItKeeps) {
  const Values x = Random(kSamples * kSequence * kHidden, 1);
  const Masked whole = Forward(x, WholePlace());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(whole.mask[i] == 0 || whole.mask[i] == 1);
    EXPECT_DOUBLE_EQ(whole.y[i], whole.mask[i] * x[i] / (1 - kProbability));
  }
}

TEST(DropoutTest, AddAndBackwardUseTheSameMask) {
  const std::int64_t rows = kSamples * kSequence, size = rows * kHidden;
  const Values z = Random(size, 1), residual = Random(size, 2), bias = Random(kHidden, 3);
  const Masked whole = Forward(z, WholePlace());
  for (const bool biased : {false, true}) {
    Buffer z_buffer(z, Dtype::kFp64), r(residual, Dtype::kFp64), b(bias, Dtype::kFp64);
    Buffer y = Buffer::Poisoned(size, Dtype::kFp64), mask = Buffer::Poisoned(size, Dtype::kUint8);
    const Op op = MakeOp(OpCode::kDropoutAdd, rows, WholePlace(), biased ? unsigned{kHasBias} : 0u);
    RunOn(op, {&z_buffer, &r, &b}, {&y, &mask});
    EXPECT_EQ(mask.values(), whole.mask);
    Values expected;
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double sum = z[i] + (biased ? bias[i % kHidden] : 0);
      expected.push_back(whole.mask[i] * sum / (1 - kProbability) + residual[i]);
    }
    EXPECT_LT(MaxDifference(y.values(), expected), 1e-15);
  }
  Buffer dy(residual, Dtype::kFp64), mask(whole.mask, Dtype::kUint8);
  Buffer dx = Buffer::Poisoned(size, Dtype::kFp64);
  RunOn(MakeOp(OpCode::kDropoutBackward, rows, WholePlace()), {&dy, &mask}, {&dx});
  ExpectGradient([&](const Values& x) { return Dot(Forward(x, WholePlace()).y, residual); }, z,
                 dx.values());
}

// Rows of the whole tensor [position * samples + sample].
std::vector<std::int64_t> RowsOf(const std::vector<std::int64_t>& positions) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t position : positions) {
    for (std::int64_t b = 0; b < kSamples; ++b) rows.push_back(position * kSamples + b);
  }
  return rows;
}

TEST(DropoutTest, ShardsDrawTheWholesMask) {
  const Values x = Random(kSamples * kSequence * kHidden, 1);
  const Masked whole = Forward(x, WholePlace());
  // Sequence parallel: contiguous parts.
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    TaskPlace place = WholePlace();
    place.tp = rank;
    place.tensor_parallel = 4;
    place.sequence_parallel = true;
    EXPECT_EQ(Forward(TakeRows(x, 6 * kHidden, {rank}), place).y,
              TakeRows(whole.y, 6 * kHidden, {rank}));
  }
  // Tensor parallel without: every rank has all tokens.
  TaskPlace other = WholePlace();
  other.tp = 1;
  other.tensor_parallel = 2;
  EXPECT_EQ(Forward(x, other).y, whole.y);
  // Context parallel: pieces 0, 3 and 1, 2 of 4; with sequence parallelism inside.
  const std::vector<std::vector<std::int64_t>> pieces{{0, 1, 2, 9, 10, 11}, {3, 4, 5, 6, 7, 8}};
  for (std::int64_t cp = 0; cp < 2; ++cp) {
    TaskPlace place = WholePlace();
    place.cp = cp;
    place.context_parallel = 2;
    const std::vector<std::int64_t> rows = RowsOf(pieces[static_cast<std::size_t>(cp)]);
    const Values expected = TakeRows(whole.y, kHidden, rows), local = TakeRows(x, kHidden, rows);
    EXPECT_EQ(Forward(local, place).y, expected);
    place.sequence_parallel = true;
    place.tensor_parallel = 3;
    for (place.tp = 0; place.tp < 3; ++place.tp) {
      EXPECT_EQ(Forward(TakeRows(local, 4 * kHidden, {place.tp}), place).y,
                TakeRows(expected, 4 * kHidden, {place.tp}));
    }
  }
  // One sample a micro-batch.
  for (std::int64_t b = 0; b < kSamples; ++b) {
    TaskPlace place = WholePlace();
    place.micro_batch_size = 1;
    place.first_sample += b;
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < kSequence; ++i) rows.push_back(i * kSamples + b);
    EXPECT_EQ(Forward(TakeRows(x, kHidden, rows), place).y, TakeRows(whole.y, kHidden, rows));
  }
}

}  // namespace
}  // namespace twinstep
