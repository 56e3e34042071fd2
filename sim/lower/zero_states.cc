#include "sim/lower/zero_states.h"

#include <algorithm>
#include <utility>

#include "sim/lower/block_template.h"
#include "sim/lower/state_tasks.h"

namespace twinstep {
namespace {

using GroupKind = Placement::GroupKind;

}  // namespace

ZeroStates::ZeroStates(const RankContext& context, GraphWriter* writer)
    : context_(context), writer_(writer), units_(context) {
  const ResolvedPlan& plan = context.plan;
  for (std::int64_t k = 0; k < plan.v; ++k) {
    const std::int64_t stage = k * plan.p + context.at.pp;
    for (std::int64_t j = 0; j < plan.l; ++j) {
      const auto layer = static_cast<std::uint16_t>(stage * plan.l + j);
      AddChunk(&context.layouts.block, layer);
    }
  }
  if (context.first_stage_here()) {
    AddChunk(&context.layouts.embedding, context.embedding_tag());
  }
  if (context.last_stage_here()) {
    AddChunk(&context.layouts.head, context.head_tag());
  }
}

bool ZeroStates::IsTied(const Chunk& chunk) const {
  return context_.model.tied_embeddings() && context_.plan.p > 1 &&
         chunk.layout->kind != ChunkKind::kBlock;
}

std::int64_t ZeroStates::Elements(const Chunk& chunk, bool sharded) const {
  return sharded ? chunk.layout->elements / context_.shard_count() : chunk.layout->elements;
}

Operand ZeroStates::ShardOf(BufferId whole, const Chunk& chunk, Dtype dtype) {
  if (context_.shard_count() == 1) return {.buffer = whole};
  const std::int64_t bytes = Elements(chunk, true) * DtypeBytes(dtype);
  return writer_->SliceOf({.buffer = whole}, bytes * context_.shard_index(), bytes);
}

void ZeroStates::AddChunk(const ChunkLayout* layout, std::uint16_t tag) {
  const LocalShapes& s = context_.shapes;
  const int zero = context_.plan.zero_stage;
  const bool several = context_.shard_count() > 1;
  Chunk chunk{.layout = layout, .tag = tag};
  const bool shards_states = several && zero >= 1;
  const bool shards_parameters = several && zero >= 3;
  // The two copies of a tied embedding lie differently in their chunks, so their gradients are
  // summed whole.
  chunk.shards_gradients = several && zero >= 2 && !IsTied(chunk);
  chunk.parameters = writer_->AddBuffer(Elements(chunk, shards_parameters) * DtypeBytes(s.dtype),
                                        s.dtype, Role::kParameter, Pool::kGpu, /*persistent=*/true);
  Register(chunk.parameters, chunk, StateKind::kParameter, s.dtype, shards_states);
  chunk.gradients =
      writer_->AddBuffer(Elements(chunk, chunk.shards_gradients) * DtypeBytes(s.gradient_dtype),
                         s.gradient_dtype, Role::kGradient);
  const std::int64_t state_bytes = Elements(chunk, shards_states) * DtypeBytes(s.state_dtype);
  const auto state = [&](StateKind kind) {
    const BufferId buffer = writer_->AddBuffer(state_bytes, s.state_dtype, Role::kOptimizerState,
                                               Pool::kGpu, /*persistent=*/true);
    Register(buffer, chunk, kind, s.state_dtype, shards_states);
    return buffer;
  };
  if (!s.master_is_parameter) chunk.master = state(StateKind::kMaster);
  chunk.moment1 = state(StateKind::kMoment1);
  chunk.moment2 = state(StateKind::kMoment2);
  if (chunk.shards_gradients && layout->kind != ChunkKind::kBlock) {
    chunk.full_gradients = writer_->AddBuffer(Elements(chunk, false) * DtypeBytes(s.gradient_dtype),
                                              s.gradient_dtype, Role::kGradient);
  }
  if (shards_parameters && layout->kind != ChunkKind::kBlock) {
    chunk.gathered = writer_->AddBuffer(Elements(chunk, false) * DtypeBytes(s.dtype), s.dtype,
                                        Role::kCommunication);
  }
  chunks_.push_back(chunk);
}

void ZeroStates::Register(BufferId buffer, const Chunk& chunk, StateKind state, Dtype dtype,
                          bool sharded) {
  for (const ParameterTensor& tensor : chunk.layout->tensors) {
    RegisterTensor(context_, {.tensor = tensor, .block = chunk.tag, .chunk = chunk.tag}, buffer,
                   state, dtype, sharded, writer_);
  }
}

void ZeroStates::Collective(OpCode op, std::int64_t bytes, Dtype dtype, unsigned flags, Lane lane,
                            Phase phase, std::uint32_t communicator, std::uint16_t chunk_tag,
                            Operand read, Operand write) {
  OpShape shape{.op = op, .dtype = dtype, .flags = static_cast<std::uint16_t>(flags)};
  shape.dims[0] = bytes;
  const TaskTags tags{.kind = TaskKind::kCollective,
                      .lane = lane,
                      .phase = phase,
                      .block = chunk_tag,
                      .chunk = chunk_tag};
  writer_->Add(writer_->Intern(shape), tags, {&read, 1}, {&write, 1}, after_);
  writer_->Join(communicator);
  after_.clear();
}

std::vector<TaskId> ZeroStates::Begin(std::vector<StateUse> uses) {
  uses_ = std::move(uses);
  std::vector<TaskId> after = GatherAtStart();
  if (!uses_.empty()) GatherForUse(uses_[0].unit);
  return after;
}

// ZeRO 3's parameters of the next unit travel while this one computes.
void ZeroStates::BindNext(std::vector<Operand>* env) {
  Bind(uses_[use_].unit, uses_[use_].backward, env);
  if (++use_ < uses_.size()) GatherForUse(uses_[use_].unit);
}

void ZeroStates::BindTiedEmbedding(bool backward, std::vector<Operand>* env) {
  std::vector<Operand> embedding_env(env->size());
  Bind(units_.embedding, backward, &embedding_env);
  for (const TensorId id :
       {ParameterId(TensorKind::kTokenEmbedding), GradientId(TensorKind::kTokenEmbedding)}) {
    (*env)[id] = embedding_env[id];
  }
}

std::vector<TaskId> ZeroStates::GatherAtStart() {
  const int zero = context_.plan.zero_stage;
  std::vector<TaskId> barrier;
  if (context_.shard_count() == 1 || zero == 0 || zero == 3) return barrier;
  const Dtype dtype = context_.shapes.dtype;
  // In the order of first use, so that with overlap the first forward starts soonest.
  std::vector<std::size_t> order;
  if (context_.first_stage_here()) order.push_back(units_.embedding);
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (!(context_.first_stage_here() && i == units_.embedding)) order.push_back(i);
  }
  for (const std::size_t i : order) {
    Chunk& chunk = chunks_[i];
    Collective(OpCode::kAllGather, Elements(chunk, false) * DtypeBytes(dtype), dtype, 0, Lane::kDp,
               Phase::kParameterGather, context_.Communicator(GroupKind::kDpCp), chunk.tag,
               ShardOf(chunk.parameters, chunk, dtype), {.buffer = chunk.parameters});
  }
  if (!context_.plan.dp_overlap) barrier.push_back(writer_->last_task());
  return barrier;
}

void ZeroStates::GatherForUse(std::size_t index) {
  if (context_.shard_count() == 1 || context_.plan.zero_stage < 3) return;
  Chunk& chunk = chunks_[index];
  const Dtype dtype = context_.shapes.dtype;
  const std::int64_t bytes = Elements(chunk, false) * DtypeBytes(dtype);
  if (chunk.layout->kind != ChunkKind::kBlock) {
    // Embedding and head have a buffer of their own and stay gathered for the iteration.
    if (chunk.is_gathered) return;
    chunk.is_gathered = true;
  } else {
    // Two slots: the chunk in use and the next.
    BufferId& slot = gather_slots_[static_cast<std::size_t>(gathers_++ % 2)];
    if (slot == kNone) slot = writer_->AddBuffer(bytes, dtype, Role::kCommunication);
    chunk.gathered = slot;
  }
  Collective(OpCode::kAllGather, bytes, dtype, 0, Lane::kDp, Phase::kParameterGather,
             context_.Communicator(GroupKind::kDpCp), chunk.tag, {.buffer = chunk.parameters},
             {.buffer = chunk.gathered});
}

BufferId ZeroStates::GradientTarget(Chunk& chunk) {
  if (!chunk.shards_gradients) return chunk.gradients;
  if (chunk.layout->kind == ChunkKind::kBlock) {
    BufferId& slot = gradient_slots_[static_cast<std::size_t>(gradient_uses_++ % 2)];
    const Dtype dtype = context_.shapes.gradient_dtype;
    if (slot == kNone) {
      slot = writer_->AddBuffer(Elements(chunk, false) * DtypeBytes(dtype), dtype, Role::kGradient);
    }
    chunk.full_gradients = slot;
  }
  return chunk.full_gradients;
}

void ZeroStates::Bind(std::size_t index, bool backward, std::vector<Operand>* env) {
  Chunk& chunk = chunks_[index];
  const bool gathers = context_.shard_count() > 1 && context_.plan.zero_stage >= 3;
  const BufferId parameters = gathers ? chunk.gathered : chunk.parameters;
  const BufferId gradients = backward ? GradientTarget(chunk) : kNone;
  const std::int64_t parameter_bytes = DtypeBytes(context_.shapes.dtype);
  const std::int64_t gradient_bytes = DtypeBytes(context_.shapes.gradient_dtype);
  for (const ParameterTensor& tensor : chunk.layout->tensors) {
    (*env)[ParameterId(tensor.kind)] =
        writer_->SliceOf({.buffer = parameters}, tensor.offset * parameter_bytes,
                         tensor.elements() * parameter_bytes);
    if (!backward) continue;
    (*env)[GradientId(tensor.kind)] = writer_->SliceOf(
        {.buffer = gradients}, tensor.offset * gradient_bytes, tensor.elements() * gradient_bytes);
  }
}

bool ZeroStates::WritesGradients(std::size_t chunk, std::int64_t micro_batch) const {
  return micro_batch == 0 || chunks_[chunk].shards_gradients;
}

void ZeroStates::SyncPartial(Chunk& chunk, BufferId gradients) {
  const ResolvedPlan& plan = context_.plan;
  if (!plan.sequence_parallel || plan.t == 1 || chunk.layout->partial_elements == 0) return;
  const Dtype dtype = context_.shapes.gradient_dtype;
  const std::int64_t bytes = chunk.layout->partial_elements * DtypeBytes(dtype);
  const Operand norms = writer_->SliceOf({.buffer = gradients}, 0, bytes);
  Collective(OpCode::kAllReduce, bytes, dtype, 0, Lane::kTp, Phase::kGradientSync,
             context_.Communicator(GroupKind::kTp), chunk.tag, norms, norms);
}

void ZeroStates::SyncTied() {
  if (!context_.model.tied_embeddings() || context_.plan.p == 1) return;
  const Dtype dtype = context_.shapes.gradient_dtype;
  for (Chunk& chunk : chunks_) {
    if (!IsTied(chunk)) continue;
    const ParameterTensor& tensor = chunk.layout->Find(TensorKind::kTokenEmbedding);
    const std::int64_t bytes = tensor.elements() * DtypeBytes(dtype);
    const Operand gradient =
        writer_->SliceOf({.buffer = chunk.gradients}, tensor.offset * DtypeBytes(dtype), bytes);
    Collective(OpCode::kAllReduce, bytes, dtype, 0, Lane::kDp, Phase::kGradientSync,
               context_.Communicator(GroupKind::kEmbedding), chunk.tag, gradient, gradient);
  }
}

void ZeroStates::Reduce(Chunk& chunk) {
  chunk.reduced = true;
  if (context_.shard_count() == 1) return;
  const Dtype dtype = context_.shapes.gradient_dtype;
  const std::int64_t bytes = Elements(chunk, false) * DtypeBytes(dtype);
  const bool scatter = context_.plan.zero_stage >= 1;
  const Operand whole{.buffer = chunk.gradients};
  Collective(scatter ? OpCode::kReduceScatter : OpCode::kAllReduce, bytes, dtype, 0, Lane::kDp,
             Phase::kGradientSync, context_.Communicator(GroupKind::kDpCp), chunk.tag, whole,
             scatter ? ShardOf(chunk.gradients, chunk, dtype) : whole);
}

void ZeroStates::AfterBackward(std::size_t index, std::int64_t micro_batch, bool last) {
  Chunk& chunk = chunks_[index];
  if (chunk.shards_gradients) {
    const Dtype dtype = context_.shapes.gradient_dtype;
    const std::int64_t bytes = Elements(chunk, false) * DtypeBytes(dtype);
    const std::int64_t shard_bytes = Elements(chunk, true) * DtypeBytes(dtype);
    SyncPartial(chunk, chunk.full_gradients);
    const bool adds = micro_batch > 0;
    const BufferId target =
        adds ? writer_->AddBuffer(shard_bytes, dtype, Role::kCommunication) : chunk.gradients;
    Collective(OpCode::kReduceScatter, bytes, dtype, 0, Lane::kDp, Phase::kGradientSync,
               context_.Communicator(GroupKind::kDpCp), chunk.tag, {.buffer = chunk.full_gradients},
               {.buffer = target});
    if (adds) {
      OpShape shape{.op = OpCode::kAccumulate, .dtype = dtype};
      shape.dims[0] = Elements(chunk, true);
      const std::array<Operand, 2> reads{Operand{.buffer = target},
                                         Operand{.buffer = chunk.gradients}};
      writer_->Add(writer_->Intern(shape),
                   {.phase = Phase::kGradientSync, .block = chunk.tag, .chunk = chunk.tag}, reads,
                   {&reads[1], 1});
    }
    chunk.reduced = true;
    return;
  }
  if (last && context_.plan.dp_overlap && !IsTied(chunk)) {
    SyncPartial(chunk, chunk.gradients);
    Reduce(chunk);
  }
}

void ZeroStates::Clip() {
  if (context_.model.recipe().clip_norm() <= 0) return;
  const LocalShapes& s = context_.shapes;
  norm_ = writer_->AddBuffer(kNormAccumulatorBytes, Dtype::kFp64, Role::kTransient);
  coefficient_ = writer_->AddBuffer(DtypeBytes(Dtype::kFp64), Dtype::kFp64, Role::kTransient);
  const TaskTags tags{.phase = Phase::kOptimizer};
  bool first = true;
  for (const Chunk& chunk : chunks_) {
    const Operand gradient = chunk.shards_gradients
                                 ? Operand{.buffer = chunk.gradients}
                                 : ShardOf(chunk.gradients, chunk, s.gradient_dtype);
    TaskTags chunk_tags = tags;
    chunk_tags.chunk = chunk_tags.block = chunk.tag;
    // Tensors that every tensor-parallel rank holds count on the first; a tied copy on its owner.
    AddGradNorm(context_,
                {.gradient = gradient,
                 .accumulator = norm_,
                 .elements = chunk.layout->elements,
                 .begin = context_.at.tp > 0 ? chunk.layout->replicated_elements : 0,
                 .end = chunk.layout->tied_copy_begin,
                 .first = first},
                chunk_tags, writer_);
    first = false;
  }
  const Operand norm{.buffer = norm_};
  if (context_.plan.gpus > 1) {
    Collective(OpCode::kAllReduce, kNormAccumulatorBytes, Dtype::kFp64, kExactSum, Lane::kDp,
               Phase::kOptimizer, context_.Communicator(GroupKind::kWorld), kNoTag, norm, norm);
  }
  const Operand coefficient{.buffer = coefficient_};
  writer_->Add(writer_->Intern({.op = OpCode::kClipCoefficient, .dtype = Dtype::kFp64}), tags,
               {&norm, 1}, {&coefficient, 1});
}

void ZeroStates::Update(Chunk& chunk) {
  const LocalShapes& s = context_.shapes;
  const int zero = context_.plan.zero_stage;
  const bool sharded = context_.shard_count() > 1 && zero >= 1;
  const std::int64_t elements = Elements(chunk, sharded);
  const std::int64_t begin = sharded ? context_.shard_index() * elements : 0;
  AddAdam(s,
          {.gradient = sharded && !chunk.shards_gradients
                           ? ShardOf(chunk.gradients, chunk, s.gradient_dtype)
                           : Operand{.buffer = chunk.gradients},
           .parameter = sharded && zero < 3 ? ShardOf(chunk.parameters, chunk, s.dtype)
                                            : Operand{.buffer = chunk.parameters},
           .master = chunk.master,
           .moment1 = chunk.moment1,
           .moment2 = chunk.moment2,
           .clip_coefficient = coefficient_,
           .elements = elements,
           .undecayed_elements =
               std::clamp<std::int64_t>(chunk.layout->undecayed_elements - begin, 0, elements)},
          {.phase = Phase::kOptimizer, .block = chunk.tag, .chunk = chunk.tag}, {}, writer_);
}

void ZeroStates::FinishIteration(TaskId last_compute) {
  // Without overlap the reduction starts when the last backward has ended.
  if (!context_.plan.dp_overlap) after_.push_back(last_compute);
  for (Chunk& chunk : chunks_) {
    if (!chunk.reduced) SyncPartial(chunk, chunk.gradients);
  }
  SyncTied();
  for (Chunk& chunk : chunks_) {
    if (!chunk.reduced) Reduce(chunk);
  }
  after_.clear();
  Clip();
  for (Chunk& chunk : chunks_) Update(chunk);
}

}  // namespace twinstep
