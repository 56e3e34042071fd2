#include "sim/plan/chunk_size.h"

#include <algorithm>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Sums of chunk bytes stay far below 2^63.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

Status CheckGroups(const std::vector<std::int64_t>& group_bytes) {
  if (group_bytes.empty()) return Error{.message = "chunks: there are no parameters"};
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < group_bytes.size(); ++i) {
    if (group_bytes[i] <= 0 || group_bytes[i] > kMostBytes - sum) {
      return Error{.message = StrCat("chunks: parameter group ", i, " has ", group_bytes[i],
                                     " bytes; sizes are positive and sum to less than 2^60")};
    }
    sum += group_bytes[i];
  }
  return Unit{};
}

std::int64_t RoundUp(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::int64_t Largest(const std::vector<ChunkRange>& chunks) {
  std::int64_t largest = 0;
  for (const ChunkRange& chunk : chunks) largest = std::max(largest, chunk.used_bytes);
  return largest;
}

void SetSize(std::int64_t chunk_bytes, ChunkPacking* packing) {
  packing->chunk_bytes = chunk_bytes;
  packing->waste_bytes = 0;
  for (const ChunkRange& chunk : packing->chunks) {
    packing->waste_bytes += chunk_bytes - chunk.used_bytes;
  }
}

}  // namespace

double ChunkPacking::waste_fraction() const {
  const double all = static_cast<double>(chunk_bytes) * static_cast<double>(chunks.size());
  return all > 0 ? static_cast<double>(waste_bytes) / all : 0;
}

Result<ChunkPacking> PackChunks(const std::vector<std::int64_t>& group_bytes,
                                std::int64_t chunk_bytes) {
  if (const Status groups = CheckGroups(group_bytes); !groups.ok()) return groups.error();
  if (chunk_bytes <= 0 ||
      chunk_bytes > kMostBytes / static_cast<std::int64_t>(group_bytes.size())) {
    return Error{.message = StrCat("chunk size is ", chunk_bytes,
                                   " bytes; must be positive and less than 2^60 over all chunks")};
  }
  ChunkPacking packing;
  for (std::size_t i = 0; i < group_bytes.size(); ++i) {
    if (group_bytes[i] > chunk_bytes) {
      return Error{
          .code = ExitCode::kNo,
          .message = StrCat("chunk size ", chunk_bytes, " bytes is ", group_bytes[i] - chunk_bytes,
                            " bytes less than parameter group ", i, " of ", group_bytes[i],
                            " bytes: the parameters of a block lie in one chunk"),
          .rule = "chunk-size",
          .excess_bytes = group_bytes[i] - chunk_bytes};
    }
    const bool fits =
        !packing.chunks.empty() && packing.chunks.back().used_bytes <= chunk_bytes - group_bytes[i];
    if (!fits) packing.chunks.push_back({.begin = i, .end = i, .used_bytes = 0});
    packing.chunks.back().end = i + 1;
    packing.chunks.back().used_bytes += group_bytes[i];
  }
  SetSize(chunk_bytes, &packing);
  return packing;
}

Result<ChunkSizeSearch> SearchChunkSize(const std::vector<std::int64_t>& group_bytes,
                                        const ChunkGrid& grid) {
  if (const Status groups = CheckGroups(group_bytes); !groups.ok()) return groups.error();
  if (grid.step_bytes <= 0 || grid.span_bytes < 0 || grid.alignment_bytes <= 0) {
    return Error{.message = StrCat("chunk grid: step ", grid.step_bytes, ", span ", grid.span_bytes,
                                   ", alignment ", grid.alignment_bytes,
                                   " bytes; step and alignment are positive, the span is not "
                                   "negative")};
  }
  const std::int64_t least = *std::max_element(group_bytes.begin(), group_bytes.end());
  ChunkSizeSearch search;
  for (std::int64_t offset = 0; offset <= grid.span_bytes; offset += grid.step_bytes) {
    Result<ChunkPacking> packing =
        PackChunks(group_bytes, RoundUp(least + offset, grid.alignment_bytes));
    if (!packing.ok()) return packing.error();
    SetSize(RoundUp(Largest(packing.value().chunks), grid.alignment_bytes), &packing.value());
    const ChunkPacking& found = packing.value();
    // Sizes grow with the grid, but for equal packings: those add nothing.
    if (!search.points.empty() && search.points.back().chunk_bytes == found.chunk_bytes) continue;
    search.points.push_back({.chunk_bytes = found.chunk_bytes,
                             .chunk_count = static_cast<std::int64_t>(found.chunks.size()),
                             .waste_bytes = found.waste_bytes});
    if (search.points.size() == 1 || found.waste_bytes < search.best.waste_bytes) {
      search.best = std::move(packing).value();
    }
  }
  return search;
}

}  // namespace twinstep
