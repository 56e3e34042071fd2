// Model states of one rank by ZeRO stages 0 to 3 (distributed optimizer), all on the GPU.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/lower/graph_writer.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/model_states.h"
#include "sim/lower/parameter_layout.h"
#include "sim/lower/rank_context.h"

namespace twinstep {

class ZeroStates : public ModelStates {
 public:
  ZeroStates(const RankContext& context, GraphWriter* writer);

  std::vector<TaskId> Begin(std::vector<StateUse> uses) override;
  void BindNext(std::vector<Operand>* env) override;
  void BindTiedEmbedding(bool backward, std::vector<Operand>* env) override;
  bool WritesGradients(std::size_t unit, std::int64_t micro_batch) const override;
  std::uint16_t ChunkTag(std::size_t unit) const override { return chunks_[unit].tag; }
  void AfterBackward(std::size_t unit, std::int64_t micro_batch, bool last) override;
  void FinishIteration(TaskId last_compute) override;

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

  // All-gathers of the parameters that ZeRO 1 and 2 keep sharded between iterations. Returns the
  // tasks that the first computation waits for when gathers do not overlap.
  std::vector<TaskId> GatherAtStart();
  // ZeRO 3: gathers the chunk for its next use; a no-op where the parameters are whole.
  void GatherForUse(std::size_t chunk);
  void Bind(std::size_t chunk, bool backward, std::vector<Operand>* env);
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
  const StateUnits units_;
  std::vector<StateUse> uses_;
  std::size_t use_ = 0;
  std::array<BufferId, 2> gather_slots_{kNone, kNone}, gradient_slots_{kNone, kNone};
  std::int64_t gathers_ = 0, gradient_uses_ = 0;
  std::vector<TaskId> after_;  // Waited for by the next collective.
  BufferId norm_ = kNone, coefficient_ = kNone;
};

}  // namespace twinstep
