// What is said of attention that cuDNN does not compute. Needs no GPU: nothing is loaded for it.
#include "exec/cuda/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace twinstep::cuda {
namespace {

using testing::ElementsAre;

OpShape Attention(OpCode op, Dtype dtype, int index, int count) {
  return {.op = op,
          .dtype = dtype,
          .index = static_cast<std::uint16_t>(index),
          .count = static_cast<std::uint16_t>(count),
          .dims = {2, 8, 4, 192, 192 * count, 64}};
}

TEST(AttentionTest, NamesTheShapeAndWhyOwnKernelsComputeIt) {
  AttentionEngine engine({});
  EXPECT_THAT(engine.notes(), ElementsAre());
  for (const OpCode op : {OpCode::kAttentionForward, OpCode::kAttentionBackward}) {
    ASSERT_TRUE(engine.Prepare(Attention(op, Dtype::kFp32, 0, 1)).ok());
    for (int index = 0; index < 2; ++index) {
      ASSERT_TRUE(engine.Prepare(Attention(op, Dtype::kBf16, index, 2)).ok());
    }
  }
  EXPECT_THAT(engine.notes(),
              ElementsAre("attention of batch 2, heads 8 / 4, 192 queries, 192 keys, head size 64, "
                          "fp32 is computed by own kernels, slower than cuDNN's, which need bf16 "
                          "or fp16",
                          "attention of batch 2, heads 8 / 4, 192 queries, 384 keys, head size 64, "
                          "bf16 is computed by own kernels, slower than cuDNN's, which need a "
                          "sequence length that is a multiple of 256 on each rank"));
}

}  // namespace
}  // namespace twinstep::cuda
