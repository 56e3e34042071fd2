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
      : uses_(uses), in_buffer_(buffers, kEmpty), held_(buffers, false) {
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
      now_ = i;
      while (LoadNext(&plan.before[i])) {
      }
      for (const std::uint32_t chunk : uses_[i].chunks) {
        if (buffer_of_[chunk] == kEmpty) return std::nullopt;
        ++next_[chunk];
      }
      for (const std::uint32_t chunk : uses_[i].held) held_[buffer_of_[chunk]] = true;
      for (const std::uint32_t chunk : uses_[i].released) {
        Empty(buffer_of_[chunk]);
        missing_from_ = i;
      }
    }
    return plan;
  }

 private:
  std::size_t NextUse(std::uint32_t chunk) const {
    return next_[chunk] < uses_of_[chunk].size() ? uses_of_[chunk][next_[chunk]] : kNever;
  }

  void Empty(std::uint32_t buffer) {
    if (in_buffer_[buffer] != kEmpty) buffer_of_[in_buffer_[buffer]] = kEmpty;
    in_buffer_[buffer] = kEmpty;
    held_[buffer] = false;
  }

  // Loads the chunk that is needed first of those that are not there, if a buffer can be had.
  bool LoadNext(std::vector<ChunkLoad>* loads) {
    missing_from_ = std::max(missing_from_, now_);
    for (std::size_t i = missing_from_; i < uses_.size(); ++i) {
      for (const std::uint32_t chunk : uses_[i].chunks) {
        if (buffer_of_[chunk] != kEmpty) continue;
        missing_from_ = i;
        return Load(chunk, i, loads);
      }
    }
    missing_from_ = uses_.size();
    return false;
  }

  bool Load(std::uint32_t chunk, std::size_t first_use, std::vector<ChunkLoad>* loads) {
    std::uint32_t best = kEmpty;
    std::size_t best_use = first_use;
    for (std::uint32_t buffer = 0; buffer < in_buffer_.size(); ++buffer) {
      if (held_[buffer]) continue;
      const std::uint32_t other = in_buffer_[buffer];
      if (other == kEmpty) {
        best = buffer;
        break;
      }
      if (NextUse(other) > best_use) {
        best = buffer;
        best_use = NextUse(other);
      }
    }
    if (best == kEmpty) return false;
    Empty(best);
    in_buffer_[best] = chunk;
    buffer_of_[chunk] = best;
    loads->push_back({.chunk = chunk, .buffer = best});
    return true;
  }

  const std::vector<ChunkUse>& uses_;
  std::vector<std::uint32_t> in_buffer_;  // By buffer.
  std::vector<bool> held_;
  std::vector<std::uint32_t> buffer_of_;           // By chunk.
  std::vector<std::vector<std::size_t>> uses_of_;  // By chunk.
  std::vector<std::size_t> next_;                  // By chunk: into uses_of_.
  std::size_t now_ = 0;
  std::size_t missing_from_ = 0;  // No earlier use lacks a chunk.
};

}  // namespace

std::optional<ChunkCachePlan> PlanChunkCache(const std::vector<ChunkUse>& uses,
                                             std::uint32_t buffers) {
  return Planner(uses, buffers).Plan();
}

}  // namespace twinstep
