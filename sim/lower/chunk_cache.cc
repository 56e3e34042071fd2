#include "sim/lower/chunk_cache.h"

#include <algorithm>
#include <limits>

namespace twinstep {
namespace {

constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

class Planner {
 public:
  Planner(const std::vector<ChunkUse>& uses, std::uint32_t buffers)
      : uses_(uses), buffers_(buffers) {
    std::uint32_t chunks = 0;
    for (const ChunkUse& use : uses) {
      for (const std::uint32_t chunk : use.chunks) chunks = std::max(chunks, chunk + 1);
    }
    uses_of_.resize(chunks);
    next_.assign(chunks, 0);
    buffer_of_.assign(chunks, kEmpty);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      for (const std::uint32_t chunk : uses[i].chunks) uses_of_[chunk].push_back(i);
    }
  }

  std::optional<ChunkCachePlan> Plan() {
    ChunkCachePlan plan;
    plan.before.resize(uses_.size());
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const ChunkUse& use = uses_[i];
      // None of these may go for another of them.
      for (const std::uint32_t chunk : use.chunks) ++next_[chunk];
      for (const std::uint32_t chunk : use.chunks) {
        if (buffer_of_[chunk] == kEmpty && !Load(chunk, use, &plan)) return std::nullopt;
      }
      for (const std::uint32_t chunk : use.chunks) buffers_[buffer_of_[chunk]].free_from = i + 1;
      for (const std::uint32_t chunk : use.held) buffers_[buffer_of_[chunk]].held = true;
      for (const std::uint32_t chunk : use.released) {
        buffers_[buffer_of_[chunk]].chunk = kEmpty;
        buffers_[buffer_of_[chunk]].held = false;
        buffer_of_[chunk] = kEmpty;
      }
    }
    return plan;
  }

 private:
  struct Buffer {
    std::uint32_t chunk = kEmpty;
    bool held = false;
    std::size_t free_from = 0;  // The use before which another chunk may come at the earliest.
  };

  std::size_t NextUse(std::uint32_t chunk) const {
    return next_[chunk] < uses_of_[chunk].size() ? uses_of_[chunk][next_[chunk]] : kNever;
  }

  // Empty buffers first, those that have been so for longest; then the one whose chunk is needed
  // last.
  bool IsBetter(const Buffer& a, const Buffer& b) const {
    if ((a.chunk == kEmpty) != (b.chunk == kEmpty)) return a.chunk == kEmpty;
    if (a.chunk == kEmpty) return a.free_from < b.free_from;
    const std::size_t next_a = NextUse(a.chunk), next_b = NextUse(b.chunk);
    return next_a != next_b ? next_a > next_b : a.free_from < b.free_from;
  }

  bool Load(std::uint32_t chunk, const ChunkUse& use, ChunkCachePlan* plan) {
    Buffer* best = nullptr;
    for (Buffer& buffer : buffers_) {
      if (buffer.held || std::ranges::find(use.chunks, buffer.chunk) != use.chunks.end()) continue;
      if (best == nullptr || IsBetter(buffer, *best)) best = &buffer;
    }
    if (best == nullptr) return false;
    if (best->chunk != kEmpty) buffer_of_[best->chunk] = kEmpty;
    best->chunk = chunk;
    buffer_of_[chunk] = static_cast<std::uint32_t>(best - buffers_.data());
    issued_ = std::max(issued_, best->free_from);
    plan->before[issued_].push_back({.chunk = chunk, .buffer = buffer_of_[chunk]});
    return true;
  }

  const std::vector<ChunkUse>& uses_;
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> buffer_of_;           // By chunk.
  std::vector<std::vector<std::size_t>> uses_of_;  // By chunk.
  std::vector<std::size_t> next_;                  // By chunk: into uses_of_.
  std::size_t issued_ = 0;                         // Use before which the last load is issued.
};

}  // namespace

std::optional<ChunkCachePlan> PlanChunkCache(const std::vector<ChunkUse>& uses,
                                             std::uint32_t buffers) {
  return Planner(uses, buffers).Plan();
}

}  // namespace twinstep
