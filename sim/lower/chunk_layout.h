// Chunks of model states (ProTrain): which parameters lie in which chunk of a
// pipeline rank, and where.
//
// Units (embedding, blocks, head) follow in execution order, each whole in one chunk; tied
// embeddings belong to the embedding, which is used first. Chunks of all ranks have one size. A
// chunk ends with its stage: units of another stage are used at another time.
//
//   Result<std::vector<RankChunks>> ranks = LayOutChunks(model, plan, shapes, layouts);
//   for (const StateChunk& chunk : ranks.value()[pp].chunks) ...
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/parameter_layout.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// A tensor of a unit in its chunk: `tensor.offset` counts from the chunk's begin.
struct ChunkTensor {
  std::uint16_t block = 0;  // Layer; model layers for the head, one more for the embedding.
  ParameterTensor tensor;
};

// Elements [begin, end) of a chunk.
using ElementRange = std::pair<std::int64_t, std::int64_t>;

struct StateChunk {
  std::vector<std::uint16_t> blocks;  // Units in execution order.
  // Order, as in ChunkLayout and over all units: gradients that are partial under sequence
  // parallelism; then tensors without weight decay, whole ones before those split over tensor
  // parallelism; then decayed ones alike; the tied copy last.
  std::vector<ChunkTensor> tensors;
  std::int64_t used_elements = 0;
  std::int64_t partial_elements = 0;    // Prefix.
  std::int64_t undecayed_elements = 0;  // Prefix.
  // What counts in the gradient's norm: on the first tensor-parallel rank, and on the others, in
  // as many ranges.
  std::vector<ElementRange> counted_first, counted_others;
  bool holds_tied_copy = false;  // Of a token embedding that both ends of the pipeline hold.
};

struct RankChunks {
  std::vector<StateChunk> chunks;   // In execution order.
  std::int64_t elements = 0;        // Of every chunk, waste included; the shards divide it.
  std::int64_t persistent = 0;      // The first so many stay on the GPU.
  std::int64_t buffers = 0;         // GPU buffers that the others stream through.
  bool gradients_in_place = false;  // They replace the parameters in the chunk.

  std::int64_t streaming() const { return static_cast<std::int64_t>(chunks.size()) - persistent; }
};

// Gradients may replace parameters where no later forward of the iteration needs them, and both
// have one type.
bool GradientsInPlace(const ResolvedPlan& plan, const LocalShapes& shapes);

// By pipeline rank. Errors (kNo), with the pipeline rank: "chunk-size" where a unit does not fit,
// "chunk-count" where no rank has so many chunks to persist, "chunk-buffers" where chunks need more
// buffers.
Result<std::vector<RankChunks>> LayOutChunks(const Model& model, const ResolvedPlan& plan,
                                             const LocalShapes& shapes,
                                             const ChunkLayouts& layouts);

}  // namespace twinstep
