// What the report says of ProTrain's plans: of each chunk of model states and each block, where it
// lives, when it moves, and what of that is exposed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/plan/plan.pb.h"

namespace twinstep {

// From the start of the first to the end of the last of some tasks.
struct Span {
  Picoseconds begin_ps = 0, end_ps = 0;
};

struct ChunkReport {
  std::uint16_t chunk = 0;
  std::vector<std::uint16_t> blocks;  // Layers; model layers for the head, one more: embedding.
  bool on_gpu = false;                // Persistent.
  std::int64_t parameters = 0;        // Of all ranks that share the chunk.
  std::int64_t uploads = 0;
  std::int64_t uploaded_bytes = 0, offloaded_bytes = 0;  // Of this rank.
  std::optional<Span> first_upload, last_upload;         // Of several; of one only the first.
  std::optional<Span> gathered, reduced, offloaded, updated;
  // A task of the chunk runs that computes nothing on the GPU, and nothing else computes there.
  Picoseconds exposed_ps = 0;
};

struct BlockReport {
  std::uint16_t block = 0;
  BlockActivations choice = BLOCK_KEEP;
  std::int64_t swapped_bytes = 0;  // Out of the GPU, and as many back.
  Picoseconds recompute_ps = 0;
  std::optional<Span> out, back;
  Picoseconds exposed_ps = 0;  // Of its copies.
};

// Of one simulated rank.
struct ChunksOfRank {
  std::uint32_t global_rank = 0;
  std::vector<ChunkReport> chunks;  // In execution order; empty without chunks.
  std::vector<BlockReport> blocks;  // In order; empty where every block is kept.
  std::int64_t chunk_bytes = 0;     // Of parameters, waste included.
  std::int64_t waste_bytes = 0;     // Of all chunks.
  std::int64_t buffers = 0;
  // Bytes of model states a parameter; gradients take none where they replace the parameters.
  std::int64_t parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0;
};

}  // namespace twinstep
