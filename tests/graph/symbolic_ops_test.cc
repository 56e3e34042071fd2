#include "sim/graph/symbolic_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace twinstep {
namespace {

using testing::HasSubstr;

// Shard `index` of `count` along the first axis of a tensor of 16 rows.
SymbolicOperand Rows(std::uint64_t v, std::int64_t row_bytes, std::int64_t index = 0,
                     std::int64_t count = 1) {
  const std::int64_t bytes = 16 * row_bytes / count;
  return {bytes, {{0, bytes, index * bytes, 16 * row_bytes, {.v = v}}}};
}

SymbolicOperand Sharded(SymbolicOperand operand, ShardAxis axis, std::uint16_t index,
                        std::uint16_t count) {
  operand.pieces[0].value.axis = axis;
  operand.pieces[0].value.axis_index = index;
  operand.pieces[0].value.axis_count = count;
  return operand;
}

struct Outcome {
  std::vector<SymbolicOperand> writes;
  std::string fault;
  std::uint32_t operand = kNone;
  const SymbolicPiece& piece(std::size_t i = 0) const { return writes[i].pieces.at(0); }
};

Outcome Apply(const OpShape& shape, const std::vector<SymbolicOperand>& reads,
              const std::vector<std::int64_t>& write_bytes, std::uint16_t block = 0) {
  Outcome outcome;
  for (const std::int64_t bytes : write_bytes) outcome.writes.push_back({bytes, {}});
  SymbolicFault fault;
  if (!ApplySymbolic(shape, block, reads, outcome.writes, fault)) {
    outcome.fault = fault.text;
    outcome.operand = fault.operand;
  }
  return outcome;
}

TEST(SymbolicOpsTest, ColumnThenRowParallelGivesAddendsOfTheLogicalValue) {
  const auto logical = [](std::uint16_t index, std::uint16_t count) {
    const bool whole = count == 1;
    const auto w1 = Sharded(Rows(7, 4), whole ? ShardAxis::kWhole : ShardAxis::kRows, index, count);
    const auto w2 =
        Sharded(Rows(8, 4), whole ? ShardAxis::kWhole : ShardAxis::kColumns, index, count);
    const Outcome up = Apply({.op = OpCode::kGemmForward}, {Rows(5, 8), w1}, {64});
    EXPECT_EQ(up.fault, "");
    const Outcome down = Apply({.op = OpCode::kGemmForward}, {up.writes[0], w2}, {32});
    EXPECT_EQ(down.fault, "");
    return down.piece().value;
  };
  SymbolicValue sum = logical(0, 2);
  EXPECT_EQ(DescribePartial(sum), "partial 0 of 2 over features");
  AddTo(sum, logical(1, 2));
  EXPECT_EQ(sum, logical(0, 1));
}

TEST(SymbolicOpsTest, ShardsOfAContractionMustMatch) {
  const Outcome outcome = Apply({.op = OpCode::kGemmForward},
                                {Sharded(Rows(5, 8), ShardAxis::kColumns, 1, 2),
                                 Sharded(Rows(8, 4), ShardAxis::kColumns, 0, 2)},
                                {32});
  EXPECT_EQ(outcome.fault, "reads column shard 1 of 2 beside column shard 0 of 2");
  EXPECT_EQ(outcome.operand, 0u);
  EXPECT_EQ(Apply({.op = OpCode::kGemmForward},
                  {Sharded(Rows(5, 8), ShardAxis::kColumns, 1, 2), Rows(8, 4)}, {32})
                .fault,
            "reads column shard 1 of 2 where the whole tensor is needed");
}

TEST(SymbolicOpsTest, TokenShardsPassThroughRowwise) {
  const Outcome outcome = Apply({.op = OpCode::kGemmForward}, {Rows(5, 8, 3, 4), Rows(8, 4)}, {16});
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(outcome.piece().begin, 48);
  EXPECT_EQ(outcome.piece().total, 64);
  EXPECT_EQ(Apply({.op = OpCode::kAdd}, {Rows(5, 8, 3, 4), Rows(6, 8, 2, 4)}, {32}).fault,
            "holds shard 2 of 4 of the whole tensor at byte 0 and is added to shard 3 of 4 of the "
            "whole tensor at byte 0");
  EXPECT_EQ(Apply({.op = OpCode::kMulForward}, {Rows(5, 8, 3, 4), Rows(6, 8, 2, 4)}, {32}).fault,
            "reads shard 2 of 4 beside shard 3 of 4");
}

TEST(SymbolicOpsTest, WeightMustBeWhole) {
  EXPECT_EQ(Apply({.op = OpCode::kGemmForward}, {Rows(5, 8), Rows(8, 4, 1, 2)}, {64}).fault,
            "reads shard 1 of 2 where the whole tensor is needed");
}

TEST(SymbolicOpsTest, BiasIsAddedOnceWhereverItIs) {
  OpShape gemm{.op = OpCode::kGemmForward};
  const SymbolicOperand bias{32, {{0, 32, 0, 32, {.v = 9}}}};
  const Outcome without = Apply(gemm, {Rows(5, 8), Rows(8, 4)}, {64});
  gemm.flags = kHasBias;
  const Outcome with = Apply(gemm, {Rows(5, 8), Rows(8, 4), bias}, {64});
  // The same sum as adding the bias with the residual.
  const Outcome first = Apply({.op = OpCode::kAdd}, {with.writes[0], Rows(6, 4)}, {64});
  const Outcome second =
      Apply({.op = OpCode::kAdd, .flags = kHasBias}, {without.writes[0], Rows(6, 4), bias}, {64});
  EXPECT_EQ(first.fault + second.fault, "");
  EXPECT_EQ(first.piece().value, second.piece().value);
  EXPECT_NE(with.piece().value.v, without.piece().value.v);
}

TEST(SymbolicOpsTest, WeightGradientsOfTokenShardsSumToTheWhole) {
  const Outcome whole = Apply({.op = OpCode::kGemmWgrad}, {Rows(5, 8), Rows(6, 4)}, {32});
  Outcome sum = Apply({.op = OpCode::kGemmWgrad}, {Rows(5, 8, 0, 2), Rows(6, 4, 0, 2)}, {32});
  EXPECT_EQ(DescribePartial(sum.piece().value), "partial 0 of 2 over tokens");
  sum = Apply({.op = OpCode::kGemmWgrad, .flags = kAccumulateGradient},
              {Rows(5, 8, 1, 2), Rows(6, 4, 1, 2), sum.writes[0]}, {32});
  EXPECT_EQ(sum.fault, "");
  EXPECT_EQ(sum.piece().value, whole.piece().value);
}

TEST(SymbolicOpsTest, WeightGradientsFollowTheWeightsShards) {
  const Outcome rows = Apply({.op = OpCode::kGemmWgrad, .flags = kHasBias},
                             {Rows(5, 8), Sharded(Rows(6, 4), ShardAxis::kColumns, 1, 2)}, {32, 8});
  EXPECT_EQ(DescribeShard(rows.piece(0).value), "row shard 1 of 2");
  EXPECT_EQ(DescribeShard(rows.piece(1).value), "column shard 1 of 2");
  const Outcome columns =
      Apply({.op = OpCode::kGemmWgrad, .flags = kHasBias},
            {Sharded(Rows(5, 8), ShardAxis::kColumns, 1, 2), Rows(6, 4)}, {32, 8});
  EXPECT_EQ(DescribeShard(columns.piece(0).value), "column shard 1 of 2");
  EXPECT_EQ(DescribeShard(columns.piece(1).value), "the whole tensor");
}

TEST(SymbolicOpsTest, AttentionNeedsItsQueriesAndAllKeys) {
  OpShape shape{.op = OpCode::kAttentionForward, .index = 1, .count = 2};
  const Outcome good = Apply(shape, {Rows(5, 8, 1, 2), Rows(6, 4)}, {64, 16});
  EXPECT_EQ(good.fault, "");
  EXPECT_EQ(DescribeRange(good.piece(0)), "shard 1 of 2");
  EXPECT_EQ(DescribeRange(good.piece(1)), "shard 1 of 2");
  EXPECT_EQ(Apply(shape, {Rows(5, 8, 0, 2), Rows(6, 4)}, {64, 16}).fault,
            "reads queries of shard 0 of 2 with the mask of shard 1 of 2");
  EXPECT_EQ(Apply(shape, {Rows(5, 8, 1, 2), Rows(6, 4, 1, 2)}, {64, 16}).fault,
            "reads shard 1 of 2 where the whole tensor is needed");
}

TEST(SymbolicOpsTest, KeyGradientsOfQueryShardsSumToTheWhole) {
  const auto backward = [](std::uint16_t index, std::uint16_t count) {
    const OpShape shape{.op = OpCode::kAttentionBackward, .index = index, .count = count};
    return Apply(shape,
                 {Rows(1, 8, index, count), Rows(2, 8, index, count), Rows(3, 4),
                  Rows(4, 8, index, count), Rows(5, 4, index, count)},
                 {128 / count, 64});
  };
  SymbolicValue sum = backward(0, 2).piece(1).value;
  EXPECT_NE(sum.partial, PartialAxis::kComplete);
  AddTo(sum, backward(1, 2).piece(1).value);
  EXPECT_EQ(sum, backward(0, 1).piece(1).value);
  EXPECT_EQ(backward(0, 2).piece(0).value, backward(1, 2).piece(0).value);
}

TEST(SymbolicOpsTest, VocabularyShardsOfTheEmbeddingSumAndPositionsCountOnce) {
  const auto lookup = [](std::uint16_t index, std::uint16_t count) {
    SymbolicOperand table = Rows(7, 4);
    if (count > 1) table = Sharded(table, ShardAxis::kRows, index, count);
    const Outcome outcome = Apply(
        {.op = OpCode::kEmbeddingForward, .flags = kHasPositions, .index = index, .count = count},
        {Rows(5, 4), table, Rows(6, 4)}, {64});
    EXPECT_EQ(outcome.fault, "");
    return outcome.piece().value;
  };
  SymbolicValue sum = lookup(0, 2);
  AddTo(sum, lookup(1, 2));
  EXPECT_EQ(sum, lookup(0, 1));
}

TEST(SymbolicOpsTest, LossNeedsTheStatisticsOfAllVocabularyShards) {
  const auto stats = [](const std::vector<std::uint16_t>& shards) {
    SymbolicOperand operand{static_cast<std::int64_t>(shards.size()) * 16, {}};
    for (const std::uint16_t shard : shards) {
      SymbolicPiece piece{static_cast<std::int64_t>(operand.pieces.size()) * 16, 16, 0, 16, {}};
      piece.value = {.v = 4, .axis = ShardAxis::kColumns, .axis_index = shard, .axis_count = 2};
      operand.pieces.push_back(piece);
    }
    return operand;
  };
  const OpShape shape{.op = OpCode::kCrossEntropyLoss, .count = 2};
  const Outcome whole =
      Apply({.op = OpCode::kCrossEntropyLoss}, {{16, {{0, 16, 0, 16, {.v = 4}}}}}, {8, 8});
  EXPECT_EQ(Apply(shape, {stats({0, 1})}, {8, 8}).piece().value, whole.piece().value);
  EXPECT_EQ(Apply(shape, {stats({1, 0})}, {8, 8}).fault,
            "holds column shard 1 of 2 where shard 0 of 2 of the vocabulary is needed");
  EXPECT_EQ(Apply(shape, {stats({0})}, {8, 8}).fault,
            "holds 1 shards where 2 of the vocabulary are needed");
}

TEST(SymbolicOpsTest, AdamRefusesAnIncompleteGradient) {
  SymbolicOperand gradient{64, {{0, 64, 0, 64, Addend(3, PartialAxis::kTokens, 1, 2, 4)}}};
  const SymbolicOperand state{64, {{0, 64, 0, 64, {.v = 5}}}};
  const Outcome outcome =
      Apply({.op = OpCode::kAdam}, {gradient, state, state, state}, {64, 64, 64, 32});
  EXPECT_EQ(outcome.operand, 0u);
  EXPECT_THAT(outcome.fault, HasSubstr("partial 1 of 4 over tokens of the gradient at byte 0"));
  gradient.pieces[0].value = {.v = 3};
  const Outcome good =
      Apply({.op = OpCode::kAdam}, {gradient, state, state, state}, {64, 64, 64, 32});
  EXPECT_EQ(good.fault, "");
  EXPECT_EQ(good.piece(0).value, good.piece(3).value);
  EXPECT_EQ(good.piece(3).total, 32);
  gradient.pieces[0].begin = 64;
  gradient.pieces[0].total = 128;
  EXPECT_THAT(
      Apply({.op = OpCode::kAdam}, {gradient, state, state, state}, {64, 64, 64, 32}).fault,
      HasSubstr("holds shard 1 of 2 of the whole tensor at byte 0 (in bytes of the weights), "
                "the weights hold the whole tensor of the whole tensor at byte 0"));
}

TEST(SymbolicOpsTest, InPlaceAdamUpdatesTheSameStates) {
  const SymbolicOperand gradient{64, {{0, 64, 0, 64, {.v = 3}}}};
  const SymbolicOperand weight{64, {{0, 64, 0, 64, {.v = 5}}}};
  const SymbolicOperand m{64, {{0, 64, 0, 64, {.v = 6}}}};
  const SymbolicOperand v{64, {{0, 64, 0, 64, {.v = 7}}}};
  const Outcome apart = Apply({.op = OpCode::kAdam}, {gradient, weight, m, v}, {64, 64, 64, 64});
  const Outcome in_place = Apply({.op = OpCode::kAdam, .flags = kMasterIsParameter},
                                 {gradient, m, v, weight}, {64, 64, 64});
  EXPECT_EQ(in_place.fault + apart.fault, "");
  EXPECT_EQ(in_place.piece(0).value, apart.piece(1).value);
  EXPECT_EQ(in_place.piece(1).value, apart.piece(2).value);
  EXPECT_EQ(in_place.piece(2).value, apart.piece(0).value);
}

TEST(SymbolicOpsTest, NormOfShardsIsTheNormOfTheWhole) {
  const auto norm = [](std::int64_t shard, std::int64_t shards) {
    OpShape shape{.op = OpCode::kGradNorm,
                  .index = static_cast<std::uint16_t>(shard),
                  .count = static_cast<std::uint16_t>(shards)};
    shape.dims = {16, 0, 16};
    const std::int64_t bytes = 64 / shards;
    const SymbolicOperand gradient{bytes, {{0, bytes, shard * bytes, 64, {.v = 3}}}};
    return Apply(shape, {gradient}, {32}).piece().value.v;
  };
  EXPECT_EQ(field::Add(norm(0, 2), norm(1, 2)), norm(0, 1));
}

TEST(SymbolicOpsTest, NormCountsOnlyItsRange) {
  OpShape shape{.op = OpCode::kGradNorm};
  shape.dims = {16, 8, 16};
  const SymbolicOperand gradient{64, {{0, 32, 0, 32, {.v = 3}}, {32, 32, 0, 32, {.v = 4}}}};
  const SymbolicOperand second{32, {{0, 32, 0, 32, {.v = 4}}}};
  OpShape alone{.op = OpCode::kGradNorm};
  alone.dims = {8, 0, 8};
  EXPECT_EQ(Apply(shape, {gradient}, {32}).piece().value,
            Apply(alone, {second}, {32}).piece().value);
}

TEST(SymbolicOpsTest, DropoutMasksDependOnSiteAndLayer) {
  const auto dropped = [](DropoutSite site, std::uint16_t block) {
    return Apply({.op = OpCode::kDropoutForward, .index = static_cast<std::uint16_t>(site)},
                 {Rows(5, 8)}, {128, 64}, block);
  };
  const Outcome first = dropped(DropoutSite::kMlpResidual, 1);
  EXPECT_EQ(first.piece(1).value, dropped(DropoutSite::kMlpResidual, 1).piece(1).value);
  EXPECT_NE(first.piece(1).value, dropped(DropoutSite::kAttentionResidual, 1).piece(1).value);
  EXPECT_NE(first.piece(0).value, dropped(DropoutSite::kMlpResidual, 2).piece(0).value);
}

TEST(SymbolicOpsTest, EveryOperationReportsMissingOperands) {
  int computes = 0;
  for (int op = 0; op < kOpCodeCount; ++op) {
    const Outcome outcome = Apply({.op = static_cast<OpCode>(op)}, {}, {});
    EXPECT_NE(outcome.fault, "") << op;
    computes += outcome.operand != kNone ? 1 : 0;
  }
  EXPECT_EQ(computes, kOpCodeCount - 9);  // Copies, SEND, RECV and collectives are no computation.
}

}  // namespace
}  // namespace twinstep
