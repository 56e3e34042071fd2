#include "sim/estimate/protrain_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twinstep {
namespace {

using ::testing::HasSubstr;

// Two blocks of two operators each, last block first. Every operator stores 10 bytes, keeps 3 more
// for its input's gradient, and needs 5 at its peak.
ProTrainMemoryInput TwoBlocks(BlockStorage first, BlockStorage second) {
  const OperatorMemory of_second{
      .current_bytes = 3, .peak_bytes = 5, .activation_bytes = 10, .block = 1};
  OperatorMemory of_first = of_second;
  of_first.block = 0;
  return {.forward_bytes = 7,
          .operators = {of_second, of_second, of_first, of_first},
          .blocks = {first, second},
          .checkpoint_saving_bytes = 16,
          .swap_saving_bytes = 20};
}

TEST(ProTrainMemoryTest, KeptBlocksPeakAtTheFirstOperator) {
  const ProTrainMemory memory =
      EstimatePeakMemory(TwoBlocks(BlockStorage::kKeep, BlockStorage::kKeep)).value();
  EXPECT_DOUBLE_EQ(memory.backward_begin_bytes, 7 + 4 * 10);  // Eq 8.
  EXPECT_DOUBLE_EQ(memory.backward_peak_bytes, 47 + 5);       // Eq 10; then 40 + 5, ...
  EXPECT_DOUBLE_EQ(memory.peak_without_deltas_bytes, 47);
}

TEST(ProTrainMemoryTest, CheckpointedBlockComesBackAtItsFirstOperator) {
  const ProTrainMemory memory =
      EstimatePeakMemory(TwoBlocks(BlockStorage::kCheckpoint, BlockStorage::kKeep)).value();
  EXPECT_DOUBLE_EQ(memory.backward_begin_bytes, 47 - 16);
  // Second block: 31 + 5, then 24 + 5; first block begins at 31 - 14 = 17: 17 + 5 + 16.
  EXPECT_DOUBLE_EQ(memory.backward_peak_bytes, 38);
  const ProTrainMemory both =
      EstimatePeakMemory(TwoBlocks(BlockStorage::kCheckpoint, BlockStorage::kCheckpoint)).value();
  EXPECT_DOUBLE_EQ(both.backward_begin_bytes, 15);
  // 15 + 5 + 16, and at the first block, which begins at 15 + 16 - 2 x 10 + 2 x 3 = 17: 17 + 5
  // + 16.
  EXPECT_DOUBLE_EQ(both.backward_peak_bytes, 38);
}

TEST(ProTrainMemoryTest, SwappedBlockAddsNothing) {
  const ProTrainMemory memory =
      EstimatePeakMemory(TwoBlocks(BlockStorage::kSwap, BlockStorage::kKeep)).value();
  EXPECT_DOUBLE_EQ(memory.backward_begin_bytes, 27);
  // 27 + 5, 20 + 5; first block begins at 13 with nothing to release: 13 + 5, 16 + 5.
  EXPECT_DOUBLE_EQ(memory.backward_peak_bytes, 32);
}

TEST(ProTrainMemoryTest, InterOperatorDeltas) {
  ProTrainMemoryInput input = TwoBlocks(BlockStorage::kKeep, BlockStorage::kKeep);
  input.operators[1].peak_prior_bytes = 100;
  input.operators[1].current_prior_bytes = 2;
  const ProTrainMemory memory = EstimatePeakMemory(input).value();
  EXPECT_DOUBLE_EQ(memory.backward_peak_bytes, 47 + 3 - 10 + 100);
  input.operators[1].peak_prior_bytes = 0;
  input.operators[1].current_prior_bytes = 20;
  EXPECT_DOUBLE_EQ(EstimatePeakMemory(input).value().backward_peak_bytes, 40 + 20 + 5);
}

TEST(ProTrainMemoryTest, ChunksAndFragmentation) {
  ProTrainMemoryInput input = TwoBlocks(BlockStorage::kKeep, BlockStorage::kKeep);
  input.persistent_chunk_bytes = 50;
  input.persistent_chunks = 2;
  input.buffer_bytes = 20;
  input.buffers = 3;
  input.fragmentation = 1.1;
  const ProTrainMemory memory = EstimatePeakMemory(input).value();
  EXPECT_DOUBLE_EQ(memory.peak_bytes(), 1.1 * (52 + 100 + 60));
  EXPECT_DOUBLE_EQ(memory.peak_without_deltas_bytes, 1.1 * (47 + 100 + 60));
}

// Row D of table 4: GPT-2 10B on four RTX 3090, 3 persistent chunks and 46 buffers of one block
// each. With the gradient in the parameter's place and the optimizer sharded over the GPUs the
// model states leave room for activations in 24 GB (ProTrain).
TEST(ProTrainMemoryTest, Table4RowD) {
  const double parameters = 12.0 * 4096 * 4096;
  ProTrainMemoryInput input;
  input.persistent_chunk_bytes = (2 + 12.0 / 4) * parameters;
  input.persistent_chunks = 3;
  input.buffer_bytes = 2 * parameters;
  input.buffers = 46;
  const ProTrainMemory memory = EstimatePeakMemory(input).value();
  EXPECT_NEAR(memory.persistent_bytes / 1e9, 3.0, 0.05);
  EXPECT_NEAR(memory.buffer_bytes / 1e9, 18.5, 0.05);
  EXPECT_NEAR(memory.peak_bytes() / 1e9, 21.5, 0.05);
}

TEST(ProTrainMemoryTest, BadInput) {
  ProTrainMemoryInput input = TwoBlocks(BlockStorage::kKeep, BlockStorage::kKeep);
  input.operators[2].block = 2;
  EXPECT_THAT(EstimatePeakMemory(input).error().message, HasSubstr("operator 2"));
  EXPECT_FALSE(EstimatePeakMemory({.buffers = -1}).ok());
  EXPECT_FALSE(EstimatePeakMemory({.fragmentation = 0.9}).ok());
}

}  // namespace
}  // namespace twinstep
