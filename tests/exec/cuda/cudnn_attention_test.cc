// Which attentions are cuDNN's, and which queries and keys its plans are of.
#include "exec/cuda/cudnn_attention.h"

#include <gtest/gtest.h>

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
