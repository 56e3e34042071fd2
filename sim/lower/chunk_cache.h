// Which chunk is in which GPU buffer when: decided before the iteration, since the order of uses
// is known.
//
// A buffer keeps its chunk until another needs the place; of those that could go, the one goes
// whose next use is last, so that no plan loads less often (Belady 1966). What the forward used
// last is still there when the backward begins. A load is issued as soon as the chunk whose place
// it takes has had its use, in the order in which chunks are needed.
//
//   std::optional<ChunkCachePlan> plan = PlanChunkCache(uses, /*buffers=*/3);
//   for (const ChunkLoad& load : plan->before[i]) ...  // To be issued before use i.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace twinstep {

struct ChunkUse {
  std::vector<std::uint32_t> chunks{};  // Of those that stream; may be empty.
  // The buffer of this chunk holds what must not be lost from this use on (a gradient in the
  // parameters' place), until a use releases it.
  std::vector<std::uint32_t> held{};
  std::vector<std::uint32_t> released{};  // Empties the buffers of these chunks after the use.
};

struct ChunkLoad {
  std::uint32_t chunk = 0;
  std::uint32_t buffer = 0;
  bool operator==(const ChunkLoad&) const = default;
};

struct ChunkCachePlan {
  std::vector<std::vector<ChunkLoad>> before;  // By use.
};

// Nothing where a use needs more chunks at once than there are buffers to hold them.
std::optional<ChunkCachePlan> PlanChunkCache(const std::vector<ChunkUse>& uses,
                                             std::uint32_t buffers);

}  // namespace twinstep
