// Parameters, gradients and optimizer states of one rank: their buffers, and the tasks that
// gather, reduce and update them (ZeRO stages 0 to 3, distributed optimizer).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/lower/graph_writer.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/parameter_layout.h"
#include "sim/lower/rank_context.h"

namespace twinstep {

class ModelStates {
 public:
  ModelStates(const RankContext& context, GraphWriter* writer);

  // Chunk of a local layer (chunk of the rank's virtual stages in order), the embedding, the head.
  std::size_t LayerChunk(std::int64_t local_layer) const {
    return static_cast<std::size_t>(local_layer);
  }
  std::size_t embedding_chunk() const { return embedding_; }
  std::size_t head_chunk() const { return head_; }

  // Start of the iteration: all-gathers of the parameters that ZeRO 1 and 2 keep sharded between
  // iterations. Returns the tasks that the first computation waits for when gathers do not
  // overlap.
  std::vector<TaskId> GatherAtStart();

  // ZeRO 3: gathers the chunk for its next use; a no-op where the parameters are whole.
  void GatherForUse(std::size_t chunk);
  // Binds parameters and gradients of the chunk for a block's tasks.
  void Bind(std::size_t chunk, bool backward, std::vector<Operand>* env);
  // Whether gradients of this micro-batch overwrite instead of adding up.
  bool WritesGradients(std::size_t chunk, std::int64_t micro_batch) const;
  // After the chunk's backward of one micro-batch (`last`: of the iteration).
  void AfterBackward(std::size_t chunk, std::int64_t micro_batch, bool last);
  // Gradient reduction that is still due, clipping, optimizer.
  void FinishIteration(TaskId last_compute);

 private:
  struct Chunk {
    const ChunkLayout* layout = nullptr;
    std::uint16_t tag = kNoTag;
    BufferId parameters = kNone;      // Whole, or this rank's shard (ZeRO 3).
    BufferId gradients = kNone;       // Whole, or this rank's shard (ZeRO 2, 3).
    BufferId full_gradients = kNone;  // Where a micro-batch's gradients are made (ZeRO 2, 3).
    BufferId gathered = kNone;        // Parameters of the current use (ZeRO 3).
    BufferId master = kNone, moment1 = kNone, moment2 = kNone;
    bool shards_gradients = false;  // ZeRO 2, 3 for this chunk.
    bool reduced = false;
    bool is_gathered = false;
  };

  void AddChunk(const ChunkLayout* layout, std::uint16_t tag);
  void Register(BufferId buffer, const Chunk& chunk, StateKind state, Dtype dtype, bool sharded);
  BufferId GradientTarget(Chunk& chunk);
  std::int64_t Elements(const Chunk& chunk, bool sharded) const;
  Operand ShardOf(BufferId whole, const Chunk& chunk, Dtype dtype);
  bool IsTied(const Chunk& chunk) const;
  void SyncPartial(Chunk& chunk, BufferId gradients);
  void SyncTied();
  void Reduce(Chunk& chunk);
  void Collective(OpCode op, std::int64_t bytes, Dtype dtype, unsigned flags, Lane lane,
                  Phase phase, std::uint32_t communicator, std::uint16_t chunk_tag, Operand read,
                  Operand write);
  void Clip();
  void Update(Chunk& chunk);

  const RankContext& context_;
  GraphWriter* writer_;
  std::vector<Chunk> chunks_;
  std::size_t embedding_ = 0, head_ = 0;
  bool has_embedding_ = false, has_head_ = false;
  std::array<BufferId, 2> gather_slots_{kNone, kNone}, gradient_slots_{kNone, kNone};
  std::int64_t gathers_ = 0, gradient_uses_ = 0;
  std::vector<TaskId> after_;  // Waited for by the next collective.
  BufferId norm_ = kNone, coefficient_ = kNone;
};

}  // namespace twinstep
