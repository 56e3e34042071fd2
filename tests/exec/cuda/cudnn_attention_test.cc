// Which attentions are cuDNN's, and which queries and keys its plans are of.
#include "exec/cuda/cudnn_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exec/cpu/positions.h"

namespace twinstep {
namespace {

OpShape Attention(OpCode op, std::int64_t sequence, int index, int count) {
  return {.op = op,
          .dtype = Dtype::kBf16,
          .index = static_cast<std::uint16_t>(index),
          .count = static_cast<std::uint16_t>(count),
          .dims = {2, 8, 2, sequence / count, sequence, 128}};
}

TEST(CudnnAttentionTest, AttendsContextParallelRanks) {
  for (const OpCode op : {OpCode::kAttentionForward, OpCode::kAttentionBackward}) {
    for (const Dtype dtype : {Dtype::kBf16, Dtype::kFp16}) {
      for (const int count : {1, 2, 3, 4, 8}) {
        for (int index = 0; index < count; ++index) {
          OpShape shape = Attention(op, 3 * 2048, index, count);
          shape.dtype = dtype;
          EXPECT_TRUE(CudnnAttends(shape)) << index << " of " << count;
        }
      }
    }
  }
}

TEST(CudnnAttentionTest, LeavesTheRest) {
  const OpShape whole = Attention(OpCode::kAttentionForward, 1024, 0, 1);
  const OpShape of_two = Attention(OpCode::kAttentionForward, 1024, 1, 2);
  ASSERT_TRUE(CudnnAttends(whole));
  ASSERT_TRUE(CudnnAttends(of_two));
  for (const OpShape& good : {whole, of_two}) {
    OpShape shape = good;
    shape.dtype = Dtype::kFp32;
    EXPECT_FALSE(CudnnAttends(shape));
    shape = good;
    shape.flags = kHasDropout;
    EXPECT_FALSE(CudnnAttends(shape));
    for (const std::int64_t head : {12, 136, 256}) {
      shape = good;
      shape.dims[5] = head;
      EXPECT_FALSE(CudnnAttends(shape)) << head;
    }
  }
  // Pieces of 64 and of 192 positions.
  EXPECT_FALSE(CudnnAttends(Attention(OpCode::kAttentionForward, 256, 0, 2)));
  EXPECT_FALSE(CudnnAttends(Attention(OpCode::kAttentionForward, 768, 1, 2)));
  EXPECT_FALSE(CudnnAttends(Attention(OpCode::kAttentionForward, 192, 0, 1)));
}

TEST(CudnnAttentionTest, SaysWhatItMisses) {
  OpShape shape = Attention(OpCode::kAttentionForward, 1024, 0, 1);
  EXPECT_EQ(WhatCudnnMisses(shape), nullptr);
  shape.dims[5] = 136;
  EXPECT_STREQ(WhatCudnnMisses(shape), "a head size that is a multiple of 8, at most 128");
  shape.dims[3] = shape.dims[4] = 1000;
  EXPECT_STREQ(WhatCudnnMisses(shape), "a sequence length that is a multiple of 128");
  shape.flags = kHasDropout;
  EXPECT_STREQ(WhatCudnnMisses(shape), "attention without dropout");
  shape.dtype = Dtype::kFp64;
  EXPECT_STREQ(WhatCudnnMisses(shape), "bf16 or fp16");
  shape = Attention(OpCode::kAttentionBackward, 768, 1, 2);
  EXPECT_STREQ(WhatCudnnMisses(shape), "a sequence length that is a multiple of 256 on each rank");
  shape.dims[4] = 1000;
  EXPECT_STREQ(WhatCudnnMisses(shape), "equal parts of the sequence");
}

// Without an accumulator, scratch grows with queries times keys: what the first rank needs suffices
// for all.
TEST(CudnnAttentionTest, NoRankSeesMoreKeysThanTheFirst) {
  for (const int count : {1, 2, 3, 4, 8}) {
    std::int64_t before = 0;
    for (int index = count - 1; index >= 0; --index) {
      std::int64_t most = 0;
      for (const AttentionPiece& piece :
           AttentionPieces(Attention(OpCode::kAttentionBackward, 3 * 2048, index, count))) {
        most = std::max(most, piece.queries * piece.keys);
      }
      EXPECT_GT(most, before) << index << " of " << count;
      before = most;
    }
  }
}

// A plan's row i sees its keys up to i + keys - queries: up to the query's own position.
TEST(CudnnAttentionTest, PiecesSeeAllKeysUpToTheirQueries) {
  constexpr std::int64_t kSequence = 3 * 2048;
  for (const int count : {1, 2, 3, 4, 8}) {
    for (int index = 0; index < count; ++index) {
      const LocalPositions positions(kSequence, index, count);
      std::int64_t next = 0;
      for (const AttentionPiece& piece :
           AttentionPieces(Attention(OpCode::kAttentionBackward, kSequence, index, count))) {
        ASSERT_EQ(piece.begin, next);
        for (std::int64_t i = 0; i < piece.queries; ++i) {
          ASSERT_EQ(i + piece.keys - piece.queries, positions.Global(piece.begin + i))
              << index << " of " << count;
        }
        next += piece.queries;
      }
      EXPECT_EQ(next, kSequence / count);
    }
  }
}

}  // namespace
}  // namespace twinstep
