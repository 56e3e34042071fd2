// The size of model state chunks, by the grid search on waste of ProTrain:
// parameters lie in chunks of one size, in the order in which the model uses them; those of one
// block stay together, so a chunk ends where the next block does not fit, and its rest is waste.
//
// The paper names no grid. Ours begins at the largest group, the least that can work, and spans
// 64 MiB: a wider one would find larger chunks, which waste less but each take a buffer's memory.
// It finds the chunk counts of the paper's table 4: 49 for GPT-2 10B, 12 for GPT-2 1B.
//
//   const std::vector<std::int64_t> groups{embedding, block, block, block, head};  // Bytes.
//   const Result<ChunkSizeSearch> search = SearchChunkSize(groups);
//   for (const ChunkRange& chunk : search.value().best.chunks) ...
#pragma once

#include <cstdint>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// Groups [begin, end) of one chunk.
struct ChunkRange {
  std::size_t begin = 0, end = 0;
  std::int64_t used_bytes = 0;
};

struct ChunkPacking {
  std::int64_t chunk_bytes = 0;
  std::vector<ChunkRange> chunks;  // In execution order.
  std::int64_t waste_bytes = 0;    // Sum of chunk_bytes - used_bytes.

  // Of all bytes in chunks, 0 .. 1.
  double waste_fraction() const;
};

// Groups into chunks of `chunk_bytes`, one after the other. Errors: "chunk-size" (kNo) where a
// group does not fit, by its index and the missing bytes; kBadInput where a size is not positive.
Result<ChunkPacking> PackChunks(const std::vector<std::int64_t>& group_bytes,
                                std::int64_t chunk_bytes);

struct ChunkGrid {
  std::int64_t step_bytes = std::int64_t{1} << 20;
  std::int64_t span_bytes = std::int64_t{64} << 20;  // From the largest group on.
  // Chunk sizes are multiples of it: shards of every rank then have equal lengths.
  std::int64_t alignment_bytes = 256;
};

struct ChunkSizeSearch {
  ChunkPacking best;
  // Every point of the grid: what it wastes. For reports.
  struct Point {
    std::int64_t chunk_bytes = 0;
    std::int64_t chunk_count = 0;
    std::int64_t waste_bytes = 0;
  };
  std::vector<Point> points;
};

// The grid's packing of least waste; of equals the smallest. Each point is rounded up to the
// alignment, and after packing cut down to its fullest chunk: the same chunks, less waste.
Result<ChunkSizeSearch> SearchChunkSize(const std::vector<std::int64_t>& group_bytes,
                                        const ChunkGrid& grid = {});

}  // namespace twinstep
