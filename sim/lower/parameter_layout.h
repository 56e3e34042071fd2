// How parameters lie in chunks. A chunk is the unit in which model states are gathered, reduced
// and updated: one transformer block, the embedding, or the head (with the final norm).
#pragma once

#include <cstdint>
#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"
#include "sim/lower/local_shapes.h"

namespace twinstep {

enum class ChunkKind : std::uint8_t { kBlock, kEmbedding, kHead };

struct ParameterTensor {
  TensorKind kind;
  ShardAxis axis = ShardAxis::kWhole;
  std::int64_t rows = 0, columns = 0;  // Local to the tensor-parallel rank.
  std::int64_t offset = 0;             // Elements from the start of the chunk.
  std::int64_t elements() const { return rows * columns; }
};

struct ChunkLayout {
  ChunkKind kind = ChunkKind::kBlock;
  // Order: norms, other tensors that every tensor-parallel rank holds whole, sharded tensors; in
  // each of them biases first. Tensors follow each other without gaps: every element up to
  // `used_elements` has a gradient.
  std::vector<ParameterTensor> tensors;
  std::int64_t used_elements = 0;        // End of the last tensor.
  std::int64_t elements = 0;             // Padded so that every ZeRO shard has equal length.
  std::int64_t partial_elements = 0;     // Prefix whose gradients are partial under sequence
                                         // parallelism.
  std::int64_t replicated_elements = 0;  // Prefix that every tensor-parallel rank holds whole.
  std::int64_t undecayed_elements = 0;   // Prefix of norms and biases, which weights do not decay.
  // Begin of a copy of the token embedding that another pipeline rank owns (tied embeddings on
  // several stages); `used_elements` if there is none.
  std::int64_t tied_copy_begin = 0;

  const ParameterTensor& Find(TensorKind kind) const;
  bool Has(TensorKind kind) const;
};

// Of the units that a model consists of.
struct ChunkLayouts {
  ChunkLayout block, embedding, head;
};

// `shard_count`: ranks that the chunk's states are sharded over (padding only).
// `head_copy`: the head chunk holds a copy of the tied embedding.
ChunkLayout MakeChunkLayout(ChunkKind kind, const Model& model, const LocalShapes& shapes,
                            std::int64_t tensor_parallel, std::int64_t shard_count, bool head_copy);

}  // namespace twinstep
