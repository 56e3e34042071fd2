#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

constexpr std::int64_t kSamples = 2, kSequence = 8, kHidden = 5, kVocabulary = 12, kPositions = 10;
constexpr std::int64_t kRows = kSamples * kSequence;

struct Shard {
  std::int64_t index = 0, count = 1;  // Of the vocabulary.
  std::int64_t cp = 0, ranks = 1;     // Of the sequence.
  std::int64_t vocabulary() const { return kVocabulary / count; }
  std::int64_t rows() const { return kRows / ranks; }
};

Op MakeOp(OpCode code, const Shard& shard, unsigned flags = 0) {
  Op op{.shape = MakeShape(
            code, {shard.rows(), kHidden, shard.vocabulary(), kSamples, shard.cp, shard.ranks},
            flags | kHasPositions),
        .place = {.cp = shard.cp,
                  .context_parallel = shard.ranks,
                  .micro_batch_size = kSamples,
                  .sequence_length = kSequence,
                  .position_rows = kPositions}};
  op.shape.index = static_cast<std::uint16_t>(shard.index);
  op.shape.count = static_cast<std::uint16_t>(shard.count);
  return op;
}

const Values kTokens{0, 11, 5, 5, 3, 0, 7, 8, 5, 1, 10, 9, 0, 2, 6, 11};

Values Forward(const Shard& shard, const Values& tokens, const Values& table,
               const Values& positions) {
  Buffer t(tokens, Dtype::kInt32), e(table, Dtype::kFp64), p(positions, Dtype::kFp64);
  Buffer x = Buffer::Poisoned(shard.rows() * kHidden, Dtype::kFp64);
  RunOn(MakeOp(OpCode::kEmbeddingForward, shard), {&t, &e, &p}, {&x});
  return x.values();
}

struct Gradients {
  Values table, positions;
};

Gradients Backward(const Shard& shard, const Values& tokens, const Values& dx) {
  Buffer t(tokens, Dtype::kInt32), gradient(dx, Dtype::kFp64);
  Buffer de = Buffer::Poisoned(shard.vocabulary() * kHidden, Dtype::kFp64);
  Buffer dp = Buffer::Poisoned(kPositions * kHidden, Dtype::kFp64);
  RunOn(MakeOp(OpCode::kEmbeddingBackward, shard), {&t, &gradient}, {&de, &dp});
  return {de.values(), dp.values()};
}

TEST(EmbeddingTest, LooksUpTokenAndPosition) {
  const Values table = Random(kVocabulary * kHidden, 1),
               positions = Random(kPositions * kHidden, 2);
  const Values x = Forward({}, kTokens, table, positions);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / kHidden;
    const auto token = static_cast<std::size_t>(kTokens[static_cast<std::size_t>(row)]);
    EXPECT_EQ(x[i],
              table[token * kHidden + i % kHidden] +
                  positions[static_cast<std::size_t>(row / kSamples) * kHidden + i % kHidden]);
  }
}

TEST(EmbeddingTest, GradientsEqualFiniteDifferences) {
  const Values table = Random(kVocabulary * kHidden, 1),
               positions = Random(kPositions * kHidden, 2);
  const Values dx = Random(kRows * kHidden, 3);
  const Gradients g = Backward({}, kTokens, dx);
  ExpectGradient([&](const Values& e) { return Dot(Forward({}, kTokens, e, positions), dx); },
                 table, g.table);
  ExpectGradient([&](const Values& p) { return Dot(Forward({}, kTokens, table, p), dx); },
                 positions, g.positions);
}

TEST(EmbeddingTest, GradientsAccumulateEachOnItsOwn) {
  const Values dx = Random(kRows * kHidden, 3);
  const Gradients once = Backward({}, kTokens, dx);
  const Values old_table = Random(kVocabulary * kHidden, 4);
  const Values old_positions = Random(kPositions * kHidden, 5);
  for (const bool with_positions : {false, true}) {
    Buffer t(kTokens, Dtype::kInt32), gradient(dx, Dtype::kFp64);
    Buffer de(old_table, Dtype::kFp64), dp(old_positions, Dtype::kFp64);
    const Op op =
        MakeOp(OpCode::kEmbeddingBackward, {},
               kAccumulateGradient | (with_positions ? unsigned{kAccumulatePositions} : 0));
    RunOn(op, {&t, &gradient, &de, &dp}, {&de, &dp});
    Values table = once.table, positions = once.positions;
    AddTo(table, old_table);
    if (with_positions) AddTo(positions, old_positions);
    EXPECT_LT(MaxDifference(de.values(), table), 1e-14);
    EXPECT_LT(MaxDifference(dp.values(), positions), 1e-14);
  }
}

TEST(EmbeddingTest, VocabularyShardsEqualWhole) {
  const Values table = Random(kVocabulary * kHidden, 1),
               positions = Random(kPositions * kHidden, 2);
  const Values dx = Random(kRows * kHidden, 3);
  Values sum(static_cast<std::size_t>(kRows * kHidden)), gradient;
  Shard shard{.count = 3};
  for (shard.index = 0; shard.index < 3; ++shard.index) {
    AddTo(sum, Forward(shard, kTokens, TakeRows(table, 4 * kHidden, {shard.index}), positions));
    const Gradients g = Backward(shard, kTokens, dx);
    gradient = Concatenate({gradient, g.table});
    EXPECT_EQ(g.positions, Backward({}, kTokens, dx).positions);
  }
  EXPECT_EQ(sum, Forward({}, kTokens, table, positions));
  EXPECT_EQ(gradient, Backward({}, kTokens, dx).table);
}

TEST(EmbeddingTest, ContextParallelEqualsWhole) {
  const Values table = Random(kVocabulary * kHidden, 1),
               positions = Random(kPositions * kHidden, 2);
  const Values dx = Random(kRows * kHidden, 3);
  const Values x = Forward({}, kTokens, table, positions);
  Values de(table.size()), dp(positions.size());
  // Pieces 0, 3 and 1, 2 of 4, of two positions each.
  const std::vector<std::vector<std::int64_t>> pieces{{0, 3}, {1, 2}};
  Shard shard{.ranks = 2};
  for (shard.cp = 0; shard.cp < 2; ++shard.cp) {
    const std::vector<std::int64_t>& mine = pieces[static_cast<std::size_t>(shard.cp)];
    const Values tokens = TakeRows(kTokens, 2 * kSamples, mine);
    EXPECT_EQ(Forward(shard, tokens, table, positions), TakeRows(x, 2 * kSamples * kHidden, mine));
    const Gradients g = Backward(shard, tokens, TakeRows(dx, 2 * kSamples * kHidden, mine));
    AddTo(de, g.table);
    AddTo(dp, g.positions);
  }
  const Gradients whole = Backward({}, kTokens, dx);
  EXPECT_LT(MaxDifference(de, whole.table), 1e-12);
  EXPECT_LT(MaxDifference(dp, whole.positions), 1e-12);
}

}  // namespace
}  // namespace twinstep
