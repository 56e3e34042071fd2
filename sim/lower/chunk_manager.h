// Model states in chunks (ProTrain). Persistent chunks stay on the GPU with their
// optimizer states. The others live in host memory, sharded over the data-parallel ranks, and
// stream through a fixed set of GPU buffers: a shard is uploaded, the chunk is gathered, blocks
// compute with it; its gradients are reduced, each rank's shard goes to the host, and the CPU
// updates it.
//
// Gradients replace the parameters in the chunk where no later forward of the iteration needs them
// (GradientsInPlace). Else those of chunks that stream are made in two buffers of their own,
// reduced and sent away micro-batch by micro-batch and summed on the host; those of persistent
// chunks add up on the GPU and are reduced once.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/lower/chunk_cache.h"
#include "sim/lower/chunk_layout.h"
#include "sim/lower/graph_writer.h"
#include "sim/lower/host_optimizer.h"
#include "sim/lower/model_states.h"
#include "sim/lower/rank_context.h"

namespace twinstep {

class ChunkManager : public ModelStates {
 public:
  ChunkManager(const RankContext& context, GraphWriter* writer);

  std::vector<TaskId> Begin(std::vector<StateUse> uses) override;
  void BindNext(std::vector<Operand>* env) override;
  void BindTiedEmbedding(bool backward, std::vector<Operand>* env) override;
  bool WritesGradients(std::size_t unit, std::int64_t micro_batch) const override;
  std::uint16_t ChunkTag(std::size_t unit) const override {
    return static_cast<std::uint16_t>(unit_chunk_[unit]);
  }
  void AfterBackward(std::size_t unit, std::int64_t micro_batch, bool last) override;
  void FinishIteration(TaskId last_compute) override;

 private:
  struct Chunk {
    const StateChunk* layout = nullptr;
    std::uint16_t tag = 0;
    bool streams = false;
    // Gradients of all micro-batches add up in one GPU buffer.
    bool accumulates = false;
    BufferId parameters = kNone;      // Persistent: whole. Streams: this rank's shard, on the host.
    BufferId buffer = kNone;          // Streams: where the parameters are at the moment.
    BufferId gradients = kNone;       // On the GPU, of the micro-batch at hand or of all.
    BufferId host_gradients = kNone;  // Streams: this rank's shard.
    BufferId master = kNone, moment1 = kNone, moment2 = kNone;

    BufferId gpu_parameters() const { return streams ? buffer : parameters; }
  };

  void AddChunk(const StateChunk& layout);
  bool AddsTiedInTurn(const StateChunk& layout) const;
  void AddStates(Chunk* chunk, Pool pool);
  void Register(const Chunk& chunk, BufferId buffer, StateKind state, Dtype dtype);
  std::uint16_t BlockOf(std::size_t unit) const;
  void PlanBuffers();
  bool UsesTiedEmbedding(const StateUse& use) const;
  bool IsFirstUnit(std::size_t unit) const;

  TaskTags Tags(const Chunk& chunk, TaskKind kind, Lane lane, Phase phase) const;
  std::int64_t ShardElements() const { return chunks_of_rank_.elements / context_.shard_count(); }
  Operand ShardOf(BufferId whole, Dtype dtype);
  void Load(const ChunkLoad& load);
  void Gather(const Chunk& chunk, BufferId whole);
  void Copy(const Chunk& chunk, bool to_gpu, Phase phase, Operand from, Operand to,
            std::int64_t bytes, TaskId after = kNone);
  void Collective(OpCode op, std::int64_t bytes, Dtype dtype, unsigned flags, Lane lane,
                  const TaskTags& tags, Placement::GroupKind group, Operand read, Operand write);
  void BindTensor(const Chunk& chunk, const ChunkTensor& tensor, bool backward,
                  std::vector<Operand>* env);
  // Where the gradients of the micro-batch at hand are made.
  BufferId GradientTarget(Chunk* chunk);
  void SyncPartial(const Chunk& chunk);
  void SyncTied(const Chunk& chunk);
  // Sums over data-parallel ranks; each keeps its shard in place.
  void Reduce(const Chunk& chunk);
  void Offload(Chunk* chunk, std::int64_t micro_batch);
  void Arrived(const Chunk& chunk);
  // Where Adam reads the clipping coefficient; none without clipping.
  struct Coefficient {
    BufferId gpu = kNone, host = kNone;
  };
  Coefficient Clip();
  void UpdatePersistent(const Chunk& chunk, BufferId coefficient);

  const RankContext& context_;
  const RankChunks& chunks_of_rank_;
  GraphWriter* writer_;
  const StateUnits units_;
  std::vector<Chunk> chunks_;
  std::vector<std::size_t> unit_chunk_;  // By unit.
  HostOptimizer host_;

  std::vector<StateUse> uses_;
  std::size_t use_ = 0;
  ChunkCachePlan cache_;
  std::vector<BufferId> buffers_;           // The n_buffer ones.
  std::vector<BufferId> gradient_buffers_;  // Of chunks that stream, in turn.
  std::size_t gradient_uses_ = 0;
  std::vector<BufferId> staging_;  // On the host, of later micro-batches' gradients, in turn.
  std::size_t staging_uses_ = 0;
};

}  // namespace twinstep
