#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

constexpr std::int64_t kRows = 7, kVocabulary = 33, kGlobalTokens = 28;
const Values kLabels{0, 32, 5, 5, 17, 31, 11};

struct Shard {
  std::int64_t index = 0, count = 1, width = kVocabulary;
};

Op MakeOp(OpCode code, const Shard& shard, Dtype dtype) {
  Op op{.shape = MakeShape(code, {kRows, shard.width, kGlobalTokens, kVocabulary}, 0, dtype)};
  op.shape.index = static_cast<std::uint16_t>(shard.index);
  op.shape.count = static_cast<std::uint16_t>(shard.count);
  return op;
}

struct Loss {
  double loss;
  Values gradient;  // Of all columns, padding included.
};

// Over vocabulary shards of `width` columns; the columns past the vocabulary are padding.
Loss RunLoss(const Values& logits, std::int64_t count, std::int64_t width,
             Dtype dtype = Dtype::kFp64) {
  const Dtype statistics = dtype == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32;
  Buffer labels(kLabels, Dtype::kInt32);
  Values all_stats;
  std::vector<Buffer> shards;
  for (Shard shard{0, count, width}; shard.index < count; ++shard.index) {
    shards.emplace_back(
        TakeColumns(logits, count * width, shard.index * width, (shard.index + 1) * width), dtype);
    Buffer stats = Buffer::Poisoned(3 * kRows, statistics);
    RunOn(MakeOp(OpCode::kCrossEntropyStats, shard, dtype), {&shards.back(), &labels}, {&stats});
    all_stats = Concatenate({all_stats, stats.values()});
  }
  Buffer gathered(all_stats, statistics), loss = Buffer::Poisoned(1, Dtype::kFp64);
  Buffer global = Buffer::Poisoned(2 * kRows, statistics);
  RunOn(MakeOp(OpCode::kCrossEntropyLoss, {0, count, width}, dtype), {&gathered}, {&loss, &global});
  Values gradient(logits.size());
  for (Shard shard{0, count, width}; shard.index < count; ++shard.index) {
    Buffer& x = shards[static_cast<std::size_t>(shard.index)];
    RunOn(MakeOp(OpCode::kCrossEntropyBackward, shard, dtype), {&x, &labels, &global}, {&x});
    const Values part = x.values();
    for (std::int64_t i = 0; i < kRows * width; ++i) {
      gradient[static_cast<std::size_t>(i / width * count * width + shard.index * width +
                                        i % width)] = part[static_cast<std::size_t>(i)];
    }
  }
  return {loss.values()[0], gradient};
}

Values Logits() {
  Values logits = Random(kRows * kVocabulary, 1);
  for (double& x : logits) x *= 6;
  return logits;
}

double PlainLoss(const Values& logits) {
  double loss = 0;
  for (std::int64_t i = 0; i < kRows; ++i) {
    const Values row = TakeRows(logits, kVocabulary, {i});
    double sum = 0;
    for (const double x : row) sum += std::exp(x);
    const auto label = static_cast<std::size_t>(kLabels[static_cast<std::size_t>(i)]);
    loss += std::log(sum) - row[label];
  }
  return loss / kGlobalTokens;
}

TEST(LossTest, EqualsDefinition) {
  EXPECT_NEAR(RunLoss(Logits(), 1, kVocabulary).loss, PlainLoss(Logits()), 1e-14);
}

TEST(LossTest, GradientEqualsFiniteDifferences) {
  const Values logits = Logits();
  ExpectGradient([](const Values& x) { return RunLoss(x, 1, kVocabulary).loss; }, logits,
                 RunLoss(logits, 1, kVocabulary).gradient, 300);
}

// Three shards of 11 columns; two of 20 and three of 24, whose ends (the last shard's all) are
// padding with absurd logits.
TEST(LossTest, ShardsAndPaddingEqualWhole) {
  const Values logits = Logits();
  const Loss whole = RunLoss(logits, 1, kVocabulary);
  for (const auto& [count, width] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 11}, {2, 20}, {3, 24}, {1, 40}}) {
    const std::int64_t columns = count * width;
    Values padded(static_cast<std::size_t>(kRows * columns), 1e6);
    for (std::int64_t i = 0; i < kRows * kVocabulary; ++i) {
      padded[static_cast<std::size_t>(i / kVocabulary * columns + i % kVocabulary)] =
          logits[static_cast<std::size_t>(i)];
    }
    const Loss sharded = RunLoss(padded, count, width);
    EXPECT_NEAR(sharded.loss, whole.loss, 1e-13);
    EXPECT_LT(MaxDifference(TakeColumns(sharded.gradient, columns, 0, kVocabulary), whole.gradient),
              1e-12);
    for (const double g : TakeColumns(sharded.gradient, columns, kVocabulary, columns)) {
      EXPECT_EQ(g, 0);
    }
  }
}

TEST(LossTest, LargeLogitsDoNotOverflow) {
  Values logits = Logits();
  for (double& x : logits) x = x * 1e3 + 1e5;
  EXPECT_TRUE(std::isfinite(RunLoss(logits, 1, kVocabulary).loss));
  EXPECT_TRUE(std::isfinite(RunLoss(logits, 3, 11, Dtype::kFp32).loss));
}

TEST(LossTest, NarrowTypesAgree) {
  const Values logits = Logits();
  const Loss exact = RunLoss(Buffer(logits, Dtype::kBf16).values(), 1, kVocabulary);
  const Loss bf16 = RunLoss(logits, 3, 11, Dtype::kBf16);
  EXPECT_NEAR(bf16.loss, exact.loss, 1e-6);
  EXPECT_LT(MaxDifference(bf16.gradient, exact.gradient), 0x1p-8 / kGlobalTokens);
}

}  // namespace
}  // namespace twinstep
