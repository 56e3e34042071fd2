#include "sim/lower/chunk_manager.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "sim/lower/block_template.h"
#include "sim/lower/state_tasks.h"

namespace twinstep {
namespace {

using GroupKind = Placement::GroupKind;

// Of gradients on their way: one is made while another leaves.
constexpr std::size_t kGradientBuffers = 2;

}  // namespace

ChunkManager::ChunkManager(const RankContext& context, GraphWriter* writer)
    : context_(context),
      chunks_of_rank_(*context.chunks),
      writer_(writer),
      units_(context),
      host_(context, writer),
      buffers_(static_cast<std::size_t>(chunks_of_rank_.buffers), kNone),
      gradient_buffers_(kGradientBuffers, kNone),
      staging_(kGradientBuffers, kNone) {
  for (const StateChunk& layout : chunks_of_rank_.chunks) AddChunk(layout);
  for (std::size_t unit = 0; unit < units_.count; ++unit) {
    const std::uint16_t block = BlockOf(unit);
    const auto holds = [block](const Chunk& chunk) {
      return std::ranges::find(chunk.layout->blocks, block) != chunk.layout->blocks.end();
    };
    const auto chunk = std::ranges::find_if(chunks_, holds);
    if (chunk == chunks_.end()) std::abort();  // The layout holds every unit of the rank.
    unit_chunk_.push_back(static_cast<std::size_t>(chunk - chunks_.begin()));
  }
}

std::uint16_t ChunkManager::BlockOf(std::size_t unit) const {
  if (unit < units_.layers) {
    const auto layer = static_cast<std::int64_t>(unit);
    const std::int64_t l = context_.plan.l;
    const std::int64_t stage = layer / l * context_.plan.p + context_.at.pp;
    return static_cast<std::uint16_t>(stage * l + layer % l);
  }
  const bool is_embedding = context_.first_stage_here() && unit == units_.embedding;
  return is_embedding ? context_.embedding_tag() : context_.head_tag();
}

void ChunkManager::AddChunk(const StateChunk& layout) {
  const LocalShapes& s = context_.shapes;
  Chunk chunk{.layout = &layout, .tag = static_cast<std::uint16_t>(chunks_.size())};
  chunk.streams = static_cast<std::int64_t>(chunks_.size()) >= chunks_of_rank_.persistent;
  const bool in_place = chunks_of_rank_.gradients_in_place;
  const std::int64_t whole_bytes = chunks_of_rank_.elements * DtypeBytes(s.dtype);
  const std::int64_t shard_bytes = ShardElements() * DtypeBytes(s.dtype);
  chunk.parameters =
      writer_->AddBuffer(chunk.streams ? shard_bytes : whole_bytes, s.dtype, Role::kParameter,
                         chunk.streams ? Pool::kPinnedHost : Pool::kGpu,
                         /*persistent=*/true);
  Register(chunk, chunk.parameters, StateKind::kParameter, s.dtype);
  if (chunk.streams) {
    // Copies of a tied embedding lie differently in their chunks: their gradients are summed whole.
    chunk.accumulates = layout.holds_tied_copy || AddsTiedInTurn(layout);
    // A parameter that is its own master must not be overwritten.
    chunk.host_gradients =
        in_place && !s.master_is_parameter
            ? chunk.parameters
            : writer_->AddBuffer(ShardElements() * DtypeBytes(s.gradient_dtype), s.gradient_dtype,
                                 Role::kGradient, Pool::kPinnedHost);
  } else {
    chunk.accumulates = true;
    if (in_place && !s.master_is_parameter) chunk.gradients = chunk.parameters;
  }
  if (chunk.accumulates && chunk.gradients == kNone) {
    chunk.gradients = writer_->AddBuffer(chunks_of_rank_.elements * DtypeBytes(s.gradient_dtype),
                                         s.gradient_dtype, Role::kGradient);
  }
  AddStates(&chunk, chunk.streams ? Pool::kHost : Pool::kGpu);
  chunks_.push_back(chunk);
}

// On one stage a tied embedding's gradient is the head's and the embedding's share in turn, of one
// micro-batch after another. Sums of whole micro-batches, added on the host, have other bits.
bool ChunkManager::AddsTiedInTurn(const StateChunk& layout) const {
  return context_.model.tied_embeddings() && context_.plan.p == 1 && context_.shard_count() == 1 &&
         !chunks_of_rank_.gradients_in_place &&
         std::ranges::find(layout.blocks, context_.embedding_tag()) != layout.blocks.end();
}

void ChunkManager::AddStates(Chunk* chunk, Pool pool) {
  const Dtype dtype = context_.shapes.state_dtype;
  const auto state = [&](StateKind kind) {
    const BufferId buffer = writer_->AddBuffer(ShardElements() * DtypeBytes(dtype), dtype,
                                               Role::kOptimizerState, pool, /*persistent=*/true);
    Register(*chunk, buffer, kind, dtype);
    return buffer;
  };
  if (!context_.shapes.master_is_parameter) chunk->master = state(StateKind::kMaster);
  chunk->moment1 = state(StateKind::kMoment1);
  chunk->moment2 = state(StateKind::kMoment2);
}

void ChunkManager::Register(const Chunk& chunk, BufferId buffer, StateKind state, Dtype dtype) {
  for (const ChunkTensor& x : chunk.layout->tensors) {
    RegisterTensor(context_, {.tensor = x.tensor, .block = x.block, .chunk = chunk.tag}, buffer,
                   state, dtype, context_.shard_count() > 1, writer_);
  }
}

// --- Which chunk is where, when.

bool ChunkManager::UsesTiedEmbedding(const StateUse& use) const {
  return context_.model.tied_embeddings() && context_.plan.p == 1 && use.unit == units_.head;
}

bool ChunkManager::IsFirstUnit(std::size_t unit) const {
  return chunks_[unit_chunk_[unit]].layout->blocks.front() == BlockOf(unit);
}

void ChunkManager::PlanBuffers() {
  const std::int64_t persistent = chunks_of_rank_.persistent;
  std::vector<ChunkUse> uses;
  for (const StateUse& use : uses_) {
    ChunkUse& cached = uses.emplace_back();
    const auto add = [&](std::size_t unit) {
      const auto chunk = static_cast<std::int64_t>(unit_chunk_[unit]) - persistent;
      if (chunk < 0) return;
      const auto id = static_cast<std::uint32_t>(chunk);
      if (std::ranges::find(cached.chunks, id) == cached.chunks.end()) cached.chunks.push_back(id);
    };
    add(use.unit);
    if (UsesTiedEmbedding(use)) add(units_.embedding);
    if (!use.backward || !chunks_of_rank_.gradients_in_place) continue;
    cached.held = cached.chunks;
    const auto own = static_cast<std::int64_t>(unit_chunk_[use.unit]) - persistent;
    if (own >= 0 && IsFirstUnit(use.unit)) cached.released = {static_cast<std::uint32_t>(own)};
  }
  std::optional<ChunkCachePlan> plan =
      PlanChunkCache(uses, static_cast<std::uint32_t>(buffers_.size()));
  if (!plan) std::abort();  // LayOutChunks has seen to it that there are enough buffers.
  cache_ = *std::move(plan);
}

std::vector<TaskId> ChunkManager::Begin(std::vector<StateUse> uses) {
  uses_ = std::move(uses);
  PlanBuffers();
  if (context_.shard_count() > 1) {
    for (const Chunk& chunk : chunks_) {
      if (!chunk.streams) Gather(chunk, chunk.parameters);
    }
  }
  return {};
}

TaskTags ChunkManager::Tags(const Chunk& chunk, TaskKind kind, Lane lane, Phase phase) const {
  return {.kind = kind, .lane = lane, .phase = phase, .chunk = chunk.tag};
}

Operand ChunkManager::ShardOf(BufferId whole, Dtype dtype) {
  if (context_.shard_count() == 1) return {.buffer = whole};
  const std::int64_t bytes = ShardElements() * DtypeBytes(dtype);
  return writer_->SliceOf({.buffer = whole}, bytes * context_.shard_index(), bytes);
}

void ChunkManager::Copy(const Chunk& chunk, bool to_gpu, Phase phase, Operand from, Operand to,
                        std::int64_t bytes, TaskId after) {
  OpShape shape{.op = to_gpu ? OpCode::kCopyH2D : OpCode::kCopyD2H, .dtype = context_.shapes.dtype};
  shape.dims[0] = bytes;
  writer_->Add(writer_->Intern(shape),
               Tags(chunk, to_gpu ? TaskKind::kH2D : TaskKind::kD2H,
                    to_gpu ? Lane::kH2D : Lane::kD2H, phase),
               {&from, 1}, {&to, 1}, {&after, 1});
}

void ChunkManager::Collective(OpCode op, std::int64_t bytes, Dtype dtype, unsigned flags, Lane lane,
                              const TaskTags& tags, GroupKind group, Operand read, Operand write) {
  OpShape shape{.op = op, .dtype = dtype, .flags = static_cast<std::uint16_t>(flags)};
  shape.dims[0] = bytes;
  TaskTags own = tags;
  own.kind = TaskKind::kCollective;
  own.lane = lane;
  writer_->Add(writer_->Intern(shape), own, {&read, 1}, {&write, 1});
  writer_->Join(context_.Communicator(group));
}

void ChunkManager::Gather(const Chunk& chunk, BufferId whole) {
  const Dtype dtype = context_.shapes.dtype;
  Collective(OpCode::kAllGather, chunks_of_rank_.elements * DtypeBytes(dtype), dtype, 0, Lane::kDp,
             Tags(chunk, TaskKind::kCollective, Lane::kDp, Phase::kParameterGather),
             GroupKind::kDpCp, ShardOf(whole, dtype), {.buffer = whole});
}

void ChunkManager::Load(const ChunkLoad& load) {
  Chunk& chunk =
      chunks_[static_cast<std::size_t>(chunks_of_rank_.persistent) + std::size_t{load.chunk}];
  const Dtype dtype = context_.shapes.dtype;
  BufferId& buffer = buffers_[load.buffer];
  if (buffer == kNone) {
    buffer = writer_->AddBuffer(chunks_of_rank_.elements * DtypeBytes(dtype), dtype,
                                Role::kCommunication);
  }
  chunk.buffer = buffer;
  Copy(chunk, /*to_gpu=*/true, Phase::kParameterGather, {.buffer = chunk.parameters},
       ShardOf(buffer, dtype), ShardElements() * DtypeBytes(dtype),
       context_.framework.parameter_copies().blocking() ? writer_->last_on(Lane::kCompute) : kNone);
  if (context_.shard_count() > 1) Gather(chunk, buffer);
}

// --- Uses.

BufferId ChunkManager::GradientTarget(Chunk* chunk) {
  if (chunk->gradients != kNone) return chunk->gradients;
  if (chunks_of_rank_.gradients_in_place) return chunk->gradients = chunk->buffer;
  const Dtype dtype = context_.shapes.gradient_dtype;
  const auto add = [&] {
    return writer_->AddBuffer(chunks_of_rank_.elements * DtypeBytes(dtype), dtype, Role::kGradient);
  };
  // The embedding's waits from the head's backward to its own, while others pass.
  const bool waits = context_.model.tied_embeddings() && context_.plan.p == 1 &&
                     unit_chunk_[units_.embedding] == chunk->tag;
  if (waits) return chunk->gradients = add();
  BufferId& slot = gradient_buffers_[gradient_uses_++ % kGradientBuffers];
  if (slot == kNone) slot = add();
  return chunk->gradients = slot;
}

void ChunkManager::BindTensor(const Chunk& chunk, const ChunkTensor& x, bool backward,
                              std::vector<Operand>* env) {
  const ParameterTensor& tensor = x.tensor;
  const auto slice = [&](BufferId buffer, Dtype dtype) {
    return writer_->SliceOf({.buffer = buffer}, tensor.offset * DtypeBytes(dtype),
                            tensor.elements() * DtypeBytes(dtype));
  };
  (*env)[ParameterId(tensor.kind)] = slice(chunk.gpu_parameters(), context_.shapes.dtype);
  if (backward) {
    (*env)[GradientId(tensor.kind)] = slice(chunk.gradients, context_.shapes.gradient_dtype);
  }
}

void ChunkManager::BindNext(std::vector<Operand>* env) {
  const StateUse& use = uses_[use_];
  for (const ChunkLoad& load : cache_.before[use_]) Load(load);
  ++use_;
  Chunk& chunk = chunks_[unit_chunk_[use.unit]];
  if (use.backward) GradientTarget(&chunk);
  const std::uint16_t block = BlockOf(use.unit);
  for (const ChunkTensor& x : chunk.layout->tensors) {
    if (x.block == block) BindTensor(chunk, x, use.backward, env);
  }
}

void ChunkManager::BindTiedEmbedding(bool backward, std::vector<Operand>* env) {
  Chunk& chunk = chunks_[unit_chunk_[units_.embedding]];
  if (backward) GradientTarget(&chunk);
  for (const ChunkTensor& x : chunk.layout->tensors) {
    if (x.tensor.kind == TensorKind::kTokenEmbedding) BindTensor(chunk, x, backward, env);
  }
}

bool ChunkManager::WritesGradients(std::size_t unit, std::int64_t micro_batch) const {
  return micro_batch == 0 || !chunks_[unit_chunk_[unit]].accumulates;
}

// --- Gradients.

void ChunkManager::SyncPartial(const Chunk& chunk) {
  const ResolvedPlan& plan = context_.plan;
  if (!plan.sequence_parallel || plan.t == 1 || chunk.layout->partial_elements == 0) return;
  const Dtype dtype = context_.shapes.gradient_dtype;
  const std::int64_t bytes = chunk.layout->partial_elements * DtypeBytes(dtype);
  const Operand partial = writer_->SliceOf({.buffer = chunk.gradients}, 0, bytes);
  Collective(OpCode::kAllReduce, bytes, dtype, 0, Lane::kTp,
             Tags(chunk, TaskKind::kCollective, Lane::kTp, Phase::kGradientSync), GroupKind::kTp,
             partial, partial);
}

void ChunkManager::SyncTied(const Chunk& chunk) {
  const Dtype dtype = context_.shapes.gradient_dtype;
  for (const ChunkTensor& x : chunk.layout->tensors) {
    if (x.tensor.kind != TensorKind::kTokenEmbedding) continue;
    const std::int64_t bytes = x.tensor.elements() * DtypeBytes(dtype);
    const Operand gradient =
        writer_->SliceOf({.buffer = chunk.gradients}, x.tensor.offset * DtypeBytes(dtype), bytes);
    Collective(OpCode::kAllReduce, bytes, dtype, 0, Lane::kDp,
               Tags(chunk, TaskKind::kCollective, Lane::kDp, Phase::kGradientSync),
               GroupKind::kEmbedding, gradient, gradient);
  }
}

void ChunkManager::Reduce(const Chunk& chunk) {
  if (context_.shard_count() == 1) return;
  const Dtype dtype = context_.shapes.gradient_dtype;
  Collective(OpCode::kReduceScatter, chunks_of_rank_.elements * DtypeBytes(dtype), dtype, 0,
             Lane::kDp, Tags(chunk, TaskKind::kCollective, Lane::kDp, Phase::kGradientSync),
             GroupKind::kDpCp, {.buffer = chunk.gradients}, ShardOf(chunk.gradients, dtype));
}

void ChunkManager::Offload(Chunk* chunk, std::int64_t micro_batch) {
  const Dtype dtype = context_.shapes.gradient_dtype;
  const std::int64_t bytes = ShardElements() * DtypeBytes(dtype);
  const bool adds = micro_batch > 0 && !chunk->accumulates;
  BufferId target = chunk->host_gradients;
  if (adds) {
    BufferId& staging = staging_[staging_uses_++ % staging_.size()];
    if (staging == kNone) {
      staging = writer_->AddBuffer(bytes, dtype, Role::kGradient, Pool::kPinnedHost);
    }
    target = staging;
  }
  Copy(*chunk, /*to_gpu=*/false, Phase::kGradientSync, ShardOf(chunk->gradients, dtype),
       {.buffer = target}, bytes);
  if (!adds) return;
  OpShape shape{.op = OpCode::kAccumulate, .dtype = dtype};
  shape.dims[0] = ShardElements();
  const std::array<Operand, 2> reads{Operand{.buffer = target},
                                     Operand{.buffer = chunk->host_gradients}};
  writer_->Add(writer_->Intern(shape),
               Tags(*chunk, TaskKind::kHost, Lane::kHost, Phase::kGradientSync), reads,
               {&reads[1], 1});
}

void ChunkManager::Arrived(const Chunk& chunk) {
  host_.GradientsArrived({.tag = chunk.tag,
                          .chunk = chunk.layout,
                          .parameters = chunk.parameters,
                          .gradients = chunk.host_gradients,
                          .master = chunk.master,
                          .moment1 = chunk.moment1,
                          .moment2 = chunk.moment2});
}

void ChunkManager::AfterBackward(std::size_t unit, std::int64_t micro_batch, bool last) {
  Chunk& chunk = chunks_[unit_chunk_[unit]];
  // The backward ends with the unit that the forward begins with.
  if (!IsFirstUnit(unit) || chunk.layout->holds_tied_copy) return;
  if (chunk.accumulates) {
    if (!last) return;
    SyncPartial(chunk);
    Reduce(chunk);
    if (!chunk.streams) return;
    Offload(&chunk, micro_batch);
    Arrived(chunk);
    return;
  }
  SyncPartial(chunk);
  Reduce(chunk);
  Offload(&chunk, micro_batch);
  chunk.gradients = kNone;
  if (last) Arrived(chunk);
}

// --- End of the iteration.

ChunkManager::Coefficient ChunkManager::Clip() {
  if (context_.model.recipe().clip_norm() <= 0) return {};
  const TaskTags tags{.phase = Phase::kOptimizer};
  const BufferId norm_buffer =
      writer_->AddBuffer(kNormAccumulatorBytes, Dtype::kFp64, Role::kTransient);
  bool first = host_.norm() == kNone;
  if (!first) {
    OpShape shape{.op = OpCode::kCopyH2D, .dtype = Dtype::kFp64};
    shape.dims[0] = kNormAccumulatorBytes;
    const Operand from{.buffer = host_.norm()}, to{.buffer = norm_buffer};
    writer_->Add(writer_->Intern(shape),
                 {.kind = TaskKind::kH2D, .lane = Lane::kH2D, .phase = Phase::kOptimizer},
                 {&from, 1}, {&to, 1});
  }
  for (const Chunk& chunk : chunks_) {
    if (chunk.streams) continue;
    const auto& counted =
        context_.at.tp == 0 ? chunk.layout->counted_first : chunk.layout->counted_others;
    for (const auto& [begin, end] : counted) {
      AddGradNorm(context_,
                  {.gradient = ShardOf(chunk.gradients, context_.shapes.gradient_dtype),
                   .accumulator = norm_buffer,
                   .elements = chunks_of_rank_.elements,
                   .begin = begin,
                   .end = end,
                   .first = first},
                  Tags(chunk, TaskKind::kCompute, Lane::kCompute, Phase::kOptimizer), writer_);
      first = false;
    }
  }
  const Operand norm{.buffer = norm_buffer};
  if (context_.plan.gpus > 1) {
    Collective(OpCode::kAllReduce, kNormAccumulatorBytes, Dtype::kFp64, kExactSum, Lane::kDp, tags,
               GroupKind::kWorld, norm, norm);
  }
  const auto scalar = [this](Pool pool) {
    return writer_->AddBuffer(DtypeBytes(Dtype::kFp64), Dtype::kFp64, Role::kTransient, pool);
  };
  Coefficient result{.gpu = scalar(Pool::kGpu)};
  const Operand coefficient{.buffer = result.gpu};
  writer_->Add(writer_->Intern({.op = OpCode::kClipCoefficient, .dtype = Dtype::kFp64}), tags,
               {&norm, 1}, {&coefficient, 1});
  if (chunks_of_rank_.streaming() == 0) return result;
  result.host = scalar(Pool::kPinnedHost);
  OpShape shape{.op = OpCode::kCopyD2H, .dtype = Dtype::kFp64};
  shape.dims[0] = DtypeBytes(Dtype::kFp64);
  const Operand to{.buffer = result.host};
  writer_->Add(writer_->Intern(shape),
               {.kind = TaskKind::kD2H, .lane = Lane::kD2H, .phase = Phase::kOptimizer},
               {&coefficient, 1}, {&to, 1});
  return result;
}

void ChunkManager::UpdatePersistent(const Chunk& chunk, BufferId coefficient) {
  const std::int64_t elements = ShardElements();
  const std::int64_t begin = context_.shard_index() * elements;
  AddAdam(context_.shapes,
          {.gradient = ShardOf(chunk.gradients, context_.shapes.gradient_dtype),
           .parameter = ShardOf(chunk.parameters, context_.shapes.dtype),
           .master = chunk.master,
           .moment1 = chunk.moment1,
           .moment2 = chunk.moment2,
           .clip_coefficient = coefficient,
           .elements = elements,
           .undecayed_elements =
               std::clamp<std::int64_t>(chunk.layout->undecayed_elements - begin, 0, elements)},
          Tags(chunk, TaskKind::kCompute, Lane::kCompute, Phase::kOptimizer), {}, writer_);
}

void ChunkManager::FinishIteration(TaskId last_compute) {
  for (Chunk& chunk : chunks_) {
    if (!chunk.layout->holds_tied_copy) continue;
    SyncPartial(chunk);
    SyncTied(chunk);
    Reduce(chunk);
    if (!chunk.streams) continue;
    Offload(&chunk, 0);
    Arrived(chunk);
  }
  const Coefficient coefficient = Clip();
  for (const Chunk& chunk : chunks_) {
    if (!chunk.streams) UpdatePersistent(chunk, coefficient.gpu);
  }
  host_.Finish(coefficient.host, last_compute);
}

}  // namespace twinstep
