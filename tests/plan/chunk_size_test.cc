#include "sim/plan/chunk_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace twinstep {
namespace {

using ::testing::HasSubstr;

// A GPT-2 in execution order, two bytes a parameter: both embeddings (the head is the token
// embedding again, at its first use), blocks of 12 h^2 + 13 h, final norm.
std::vector<std::int64_t> Gpt2(std::int64_t h, std::int64_t layers) {
  std::vector<std::int64_t> groups{2 * (50257 + 1024) * h};
  groups.insert(groups.end(), static_cast<std::size_t>(layers), 2 * (12 * h * h + 13 * h));
  groups.push_back(2 * 2 * h);
  return groups;
}

TEST(ChunkSizeTest, PacksInOrder) {
  const ChunkPacking packing = PackChunks({5, 3, 3, 4, 7, 1}, 8).value();
  ASSERT_EQ(packing.chunks.size(), 3u);
  EXPECT_EQ(packing.chunks[0].end, 2u);  // 5 + 3.
  EXPECT_EQ(packing.chunks[1].end, 4u);  // 3 + 4: 7 does not fit into the rest.
  EXPECT_EQ(packing.chunks[2].end, 6u);  // 7 + 1.
  EXPECT_EQ(packing.waste_bytes, 1);
  EXPECT_DOUBLE_EQ(packing.waste_fraction(), 1.0 / 24);
}

TEST(ChunkSizeTest, GroupThatDoesNotFit) {
  const Result<ChunkPacking> packing = PackChunks({5, 9, 3}, 8);
  ASSERT_FALSE(packing.ok());
  EXPECT_EQ(packing.error().code, ExitCode::kNo);
  EXPECT_EQ(packing.error().rule, "chunk-size");
  EXPECT_EQ(packing.error().excess_bytes, 1);
  EXPECT_THAT(packing.error().message, HasSubstr("group 1"));
}

TEST(ChunkSizeTest, BadInput) {
  EXPECT_EQ(PackChunks({}, 8).error().code, ExitCode::kBadInput);
  EXPECT_EQ(PackChunks({4, 0}, 8).error().code, ExitCode::kBadInput);
  EXPECT_EQ(PackChunks({4}, 0).error().code, ExitCode::kBadInput);
  EXPECT_EQ(PackChunks({INT64_MAX, INT64_MAX}, INT64_MAX).error().code, ExitCode::kBadInput);
  EXPECT_EQ(SearchChunkSize({4}, {.step_bytes = 0}).error().code, ExitCode::kBadInput);
  EXPECT_EQ(SearchChunkSize({}).error().code, ExitCode::kBadInput);
}

// Sizes 4 to 8 by ones. 4: 4 | 2 2 | 3 -> waste 1. 5: cut down to 4. 6: 4 2 | 2 3 -> 1. 7: 4 2
// again. 8: 4 2 2 | 3 -> 5.
TEST(ChunkSizeTest, LeastWasteThenSmallest) {
  const ChunkSizeSearch search =
      SearchChunkSize({4, 2, 2, 3}, {.step_bytes = 1, .span_bytes = 4, .alignment_bytes = 1})
          .value();
  EXPECT_EQ(search.best.chunk_bytes, 4);
  EXPECT_EQ(search.best.waste_bytes, 1);
  ASSERT_EQ(search.points.size(), 3u);
  EXPECT_EQ(search.points[1].chunk_bytes, 6);
  EXPECT_EQ(search.points[1].waste_bytes, 1);
  EXPECT_EQ(search.points[2].chunk_bytes, 8);
  EXPECT_EQ(search.points[2].waste_bytes, 5);
}

// Table 4 of ProTrain.
TEST(ChunkSizeTest, Gpt2TenBillionHas49Chunks) {
  const ChunkPacking best = SearchChunkSize(Gpt2(4096, 48)).value().best;
  EXPECT_EQ(best.chunks.size(), 49u);
  EXPECT_EQ(best.chunk_bytes, 2 * (50257 + 1024) * 4096);
  EXPECT_EQ(best.chunks.back().end - best.chunks.back().begin, 2u);  // Last block, final norm.
  EXPECT_LT(best.waste_fraction(), 0.042);
}

TEST(ChunkSizeTest, Gpt2OneBillionHas12Chunks) {
  const ChunkPacking best = SearchChunkSize(Gpt2(1600, 32)).value().best;
  EXPECT_EQ(best.chunks.size(), 12u);
  EXPECT_EQ(best.chunks[1].end - best.chunks[1].begin, 3u);  // Three blocks a chunk.
  EXPECT_LT(best.waste_fraction(), 0.04);
}

RC_GTEST_PROP(ChunkSizeProperty, LeastWasteOfTheGrid, ()) {
  const auto groups = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 300)));
  const ChunkGrid grid{.step_bytes = *rc::gen::inRange<std::int64_t>(1, 20),
                       .span_bytes = *rc::gen::inRange<std::int64_t>(0, 400),
                       .alignment_bytes = *rc::gen::inRange<std::int64_t>(1, 64)};
  const ChunkPacking best = SearchChunkSize(groups, grid).value().best;
  // Every group lies in one chunk, in order, and all bytes are accounted for.
  std::size_t next = 0;
  for (const ChunkRange& chunk : best.chunks) {
    RC_ASSERT(chunk.begin == next);
    RC_ASSERT(chunk.end > chunk.begin);
    RC_ASSERT(chunk.used_bytes <= best.chunk_bytes);
    next = chunk.end;
  }
  RC_ASSERT(next == groups.size());
  RC_ASSERT(best.chunk_bytes % grid.alignment_bytes == 0);
  const std::int64_t used = std::accumulate(groups.begin(), groups.end(), std::int64_t{0});
  const auto count = static_cast<std::int64_t>(best.chunks.size());
  RC_ASSERT(best.waste_bytes == best.chunk_bytes * count - used);
  // No size of the grid wastes less.
  const std::int64_t least = *std::max_element(groups.begin(), groups.end());
  for (std::int64_t size = least; size <= least + grid.span_bytes; size += grid.step_bytes) {
    const std::int64_t aligned =
        (size + grid.alignment_bytes - 1) / grid.alignment_bytes * grid.alignment_bytes;
    const auto chunks =
        static_cast<std::int64_t>(PackChunks(groups, aligned).value().chunks.size());
    RC_ASSERT(best.waste_bytes <= chunks * aligned - used);
  }
}

}  // namespace
}  // namespace twinstep
