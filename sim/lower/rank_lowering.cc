#include "sim/lower/rank_lowering.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/lower/block_template.h"
#include "sim/lower/model_states.h"
#include "sim/lower/offload_layout.h"
#include "sim/lower/schedule.h"

namespace twinstep {
namespace {

using GroupKind = Placement::GroupKind;

// Buffers that tasks of one kind take in turn: a new user waits until an earlier one is done.
class SlotRing {
 public:
  explicit SlotRing(std::int64_t slots = 2) : slots_(static_cast<std::size_t>(slots), kNone) {}

  Operand Next(GraphWriter* writer, std::int64_t bytes, Dtype dtype, Role role) {
    BufferId& slot = slots_[uses_++ % slots_.size()];
    if (slot == kNone) slot = writer->AddBuffer(bytes, dtype, role);
    return {.buffer = slot};
  }

 private:
  std::vector<BufferId> slots_;
  std::size_t uses_ = 0;
};

class RankLowering {
 public:
  RankLowering(const RankContext& context, const PipelineChannels& channels,
               const PipelineOrder& order, GraphWriter* writer)
      : context_(context),
        plan_(context.plan),
        channels_(channels),
        writer_(writer),
        states_(context, writer),
        order_(order),
        units_(order.units),
        fwd_send_slots_(order.forward_send_slots),
        bwd_send_slots_(order.backward_send_slots) {
    const TemplateContext templates{
        .model = context.model,
        .plan = context.plan,
        .shapes = context.shapes,
        .at = context.at,
        .attention_fp32_dq = context.cluster.gpu().attention_backward_fp32_dq(),
        .writer = writer};
    layer_ = MakeLayerTemplate(templates);
    if (context.first_stage_here()) embedding_ = MakeEmbeddingTemplate(templates);
    if (context.last_stage_here()) head_ = MakeHeadTemplate(templates);
    offload_ = MakeOffloadLayout(layer_, plan_.l, plan_.offload_ratio);
    const std::size_t tensors =
        std::max({layer_.tensors.size(), embedding_.tensors.size(), head_.tensors.size()});
    env_.resize(kFirstTensor + tensors);
    blocks_.resize(static_cast<std::size_t>(plan_.m * plan_.v));
    if (context.cluster.gpu().gemm_workspace_bytes() > 0) {
      writer->AddBuffer(context.cluster.gpu().gemm_workspace_bytes(), Dtype::kUint8,
                        Role::kWorkspace, Pool::kGpu, /*persistent=*/true);
    }
    AddData();
  }

  void Run() {
    after_ = states_.GatherAtStart();
    ListUses();
    messages_.resize(units_.size());
    for (const IssueItem& item : order_.items) {
      const std::size_t u = item.unit;
      const ScheduleUnit& unit = units_[u];
      SetUnitTags(unit);
      switch (item.kind) {
        case IssueItem::Kind::kReceive:
          Receive(u);
          break;
        case IssueItem::Kind::kSend:
          Send(u);
          break;
        case IssueItem::Kind::kUnit:
          unit_ = u;
          StartReloads(u);
          if (unit.backward) {
            Backward(unit);
          } else {
            Forward(unit);
          }
          unit_end_.push_back(last_compute_);
          break;
      }
    }
    ReduceLoss();
    states_.FinishIteration(last_compute_);
  }

 private:
  // What a block (micro-batch x stage) leaves for its backward.
  struct Block {
    std::vector<Operand> places;  // Of the stored tensors while the forward makes them.
    std::vector<Operand> saved;   // l times layer_.saved, in order.
    std::vector<Operand> embedding_saved, head_saved;
    bool offloaded = false;
    BufferId slot = kNone;  // Where the offloaded part is (forward, then reload slot).
    BufferId host = kNone, tail = kNone;
  };

  void SetUnitTags(const ScheduleUnit& unit) {
    tags_ = TaskTags{};
    tags_.micro_batch = unit.micro_batch;
    tags_.stage = static_cast<std::uint16_t>(Stage(unit));
  }
  std::int64_t Stage(const ScheduleUnit& unit) const {
    return unit.chunk * plan_.p + context_.at.pp;
  }
  bool IsFirstStage(const ScheduleUnit& unit) const { return Stage(unit) == 0; }
  bool IsLastStage(const ScheduleUnit& unit) const { return Stage(unit) == plan_.p * plan_.v - 1; }
  Block& BlockOf(const ScheduleUnit& unit) {
    return blocks_[static_cast<std::size_t>(unit.micro_batch * plan_.v + unit.chunk)];
  }
  // The last stage's backward follows its forward at once (papers.md 1.6: not offloaded).
  bool Offloads(const ScheduleUnit& unit) const { return !offload_.empty() && !IsLastStage(unit); }

  void AddData() {
    const LocalShapes& s = context_.shapes;
    const std::int64_t bytes = s.tokens * DtypeBytes(Dtype::kInt32);
    const auto add = [&](TensorKind kind, std::vector<BufferId>* buffers) {
      for (std::int64_t i = 0; i < plan_.m; ++i) {
        buffers->push_back(writer_->AddBuffer(bytes, Dtype::kInt32, Role::kInput, Pool::kGpu,
                                              /*persistent=*/true));
        writer_->AddTensor({.buffer = buffers->back(),
                            .slice = {.offset = 0, .bytes = bytes},
                            .kind = kind,
                            .state = StateKind::kData,
                            .micro_batch = static_cast<std::uint32_t>(context_.at.dp * plan_.m + i),
                            .cp_index = static_cast<std::uint16_t>(context_.at.cp),
                            .cp_count = static_cast<std::uint16_t>(plan_.c),
                            .rows = s.tokens,
                            .columns = 1});
      }
    };
    if (context_.first_stage_here()) add(TensorKind::kTokens, &tokens_);
    if (!context_.last_stage_here()) return;
    add(TensorKind::kLabels, &labels_);
    const std::int64_t loss_bytes = plan_.m * DtypeBytes(Dtype::kFp64);
    loss_ = writer_->AddBuffer(loss_bytes, Dtype::kFp64, Role::kInput, Pool::kGpu,
                               /*persistent=*/true);
    writer_->AddTensor({.buffer = loss_,
                        .slice = {.offset = 0, .bytes = loss_bytes},
                        .kind = TensorKind::kLoss,
                        .state = StateKind::kData,
                        .rows = plan_.m,
                        .columns = 1});
  }

  // --- Stamping out templates.

  void Run(const std::vector<TemplateOp>& ops, const BlockTemplate& block, bool first) {
    for (const TemplateOp& op : ops) {
      scratch_.clear();
      const TemplateOperand* operand = block.operands.data() + op.operand_begin;
      const std::size_t reads = op.read_count - (first ? op.accumulate_reads : 0u);
      for (std::size_t i = 0; i < reads; ++i) scratch_.push_back(Resolve(block, operand[i]));
      operand += op.read_count;
      for (std::size_t i = 0; i < op.write_count; ++i) {
        scratch_.push_back(Resolve(block, operand[i]));
      }
      tags_.kind = op.kind;
      tags_.lane = op.lane;
      tags_.phase = op.phase;
      const std::span<const Operand> all(scratch_);
      const TaskId id = writer_->Add(first ? op.first_shape : op.shape, tags_, all.first(reads),
                                     all.subspan(reads), after_);
      after_.clear();
      if (op.collective) {
        writer_->Join(context_.Communicator(op.group));
      } else {
        last_compute_ = id;
      }
    }
  }

  Operand Resolve(const BlockTemplate& block, const TemplateOperand& x) {
    Operand& bound = env_[x.tensor];
    if (bound.buffer == kNone) {
      const TemplateTensor& tensor = block.Tensor(x.tensor);
      bound = {.buffer = writer_->AddBuffer(tensor.bytes, tensor.dtype, tensor.role)};
    }
    return x.bytes == 0 ? bound : writer_->SliceOf(bound, x.offset, x.bytes);
  }

  void ResetEnv() { std::fill(env_.begin(), env_.end(), Operand{}); }

  void Save(const BlockTemplate& block, std::vector<Operand>* saved) {
    for (const TensorId id : block.saved) saved->push_back(env_[id]);
  }
  void Restore(const BlockTemplate& block, std::span<const Operand> saved) {
    for (std::size_t i = 0; i < block.saved.size(); ++i) env_[block.saved[i]] = saved[i];
  }

  // --- ZeRO 3: parameters of the next block travel while this one computes.

  void ListUses() {
    for (const ScheduleUnit& unit : units_) {
      const std::size_t begin = uses_.size();
      if (IsFirstStage(unit)) uses_.push_back(states_.embedding_chunk());
      for (std::int64_t j = 0; j < plan_.l; ++j) uses_.push_back(LayerChunk(unit, j));
      if (IsLastStage(unit)) uses_.push_back(states_.head_chunk());
      if (unit.backward) {
        std::reverse(uses_.begin() + static_cast<std::ptrdiff_t>(begin), uses_.end());
      }
    }
    if (!uses_.empty()) states_.GatherForUse(uses_[0]);
  }
  std::size_t LayerChunk(const ScheduleUnit& unit, std::int64_t j) const {
    return states_.LayerChunk(unit.chunk * plan_.l + j);
  }
  // Binds the next use's chunk, then prefetches the one after it.
  void Use(std::size_t chunk, bool backward) {
    ResetEnv();
    states_.Bind(chunk, backward, &env_);
    if (++use_ < uses_.size()) states_.GatherForUse(uses_[use_]);
  }

  // --- Forward of one block.

  void Forward(const ScheduleUnit& unit) {
    Block& block = BlockOf(unit);
    if (IsFirstStage(unit)) PlaceBlock(unit);
    Operand x = messages_[unit_];
    if (IsFirstStage(unit)) {
      tags_.block = tags_.chunk = context_.embedding_tag();
      Use(states_.embedding_chunk(), false);
      env_[embedding_.tokens] = {.buffer = tokens_[unit.micro_batch]};
      env_[embedding_.output] = InputPlace(block, 0);
      Run(embedding_.forward, embedding_, false);
      Save(embedding_, &block.embedding_saved);
      x = env_[embedding_.output];
    }

    for (std::int64_t j = 0; j < plan_.l; ++j) {
      SetLayerTags(unit, j);
      Use(LayerChunk(unit, j), false);
      for (std::size_t i = 0; i < layer_.saved.size(); ++i) {
        env_[layer_.saved[i]] = block.places[static_cast<std::size_t>(j) * layer_.saved.size() + i];
      }
      env_[layer_.input] = x;
      if (j + 1 < plan_.l) {
        env_[layer_.output] = InputPlace(block, j + 1);
      } else if (!IsLastStage(unit)) {
        env_[layer_.output] = fwd_send_slots_.Next(writer_, InputBytes(), context_.shapes.dtype,
                                                   Role::kCommunication);
      } else {
        env_[layer_.output] = NewActivation();  // The head's stored input.
      }
      Run(layer_.forward, layer_, false);
      Save(layer_, &block.saved);
      x = env_[layer_.output];
    }

    if (IsLastStage(unit)) {
      HeadForward(unit, x, &block);
    } else {
      if (block.offloaded) Offload(&block);
      messages_[unit_] = x;
    }
    block.places = {};
  }

  // Decides where the block's stored tensors go: its part of an offload slot, or new buffers.
  void PlaceBlock(const ScheduleUnit& unit) {
    Block& block = BlockOf(unit);
    block.places.assign(static_cast<std::size_t>(plan_.l) * layer_.saved.size(), Operand{});
    block.offloaded = Offloads(unit);
    // A last stage's block takes its turn in the slots as well, if its backward is next: it holds
    // one no longer than a copy would.
    const bool has_slot = block.offloaded || (RankOffloads() && BackwardIsNext(unit));
    if (offload_.empty() || !has_slot) return;
    block.slot =
        forward_slots_.Next(writer_, offload_.slot_bytes, context_.shapes.dtype, Role::kOffloadSlot)
            .buffer;
    for (const OffloadLayout::Entry& entry : offload_.entries) {
      block
          .places[static_cast<std::size_t>(entry.layer) * layer_.saved.size() + entry.saved_index] =
          SlotOperand(block.slot, entry);
    }
  }

  // Every stage but the last waits for other ranks between forward and backward; only GPipe makes
  // the last stage wait for its own.
  bool BackwardIsNext(const ScheduleUnit& unit) const {
    return IsLastStage(unit) && plan_.schedule != GPIPE;
  }
  // A rank whose only stage is the model's last has no slots to share.
  bool RankOffloads() const { return plan_.v > 1 || !context_.last_stage_here(); }

  void SetLayerTags(const ScheduleUnit& unit, std::int64_t j) {
    tags_.block = tags_.chunk = static_cast<std::uint16_t>(Stage(unit) * plan_.l + j);
  }
  std::int64_t InputBytes() const {
    return context_.shapes.shard_tokens * context_.shapes.hidden *
           DtypeBytes(context_.shapes.dtype);
  }
  Operand SlotOperand(BufferId slot, const OffloadLayout::Entry& entry) {
    return writer_->SliceOf({.buffer = slot}, entry.slot_offset,
                            layer_.Tensor(layer_.saved[entry.saved_index]).bytes);
  }
  // Where the input of layer j of the stage, made by another block or rank, is to be stored.
  Operand InputPlace(const Block& block, std::int64_t j) {
    for (std::size_t i = 0; i < layer_.saved.size(); ++i) {
      if (layer_.saved[i] != layer_.input) continue;
      const Operand& place = block.places[static_cast<std::size_t>(j) * layer_.saved.size() + i];
      if (place.buffer != kNone) return place;
    }
    return NewActivation();
  }
  Operand NewActivation() {
    return {.buffer = writer_->AddBuffer(InputBytes(), context_.shapes.dtype, Role::kActivation)};
  }

  void HeadForward(const ScheduleUnit& unit, Operand x, Block* block) {
    tags_.block = tags_.chunk = context_.head_tag();
    Use(states_.head_chunk(), false);
    BindTiedEmbedding(false);
    env_[head_.input] = x;
    env_[head_.labels] = {.buffer = labels_[unit.micro_batch]};
    constexpr std::int64_t kLossBytes = DtypeBytes(Dtype::kFp64);
    env_[head_.loss] = plan_.m == 1 ? Operand{.buffer = loss_}
                                    : writer_->SliceOf({.buffer = loss_},
                                                       unit.micro_batch * kLossBytes, kLossBytes);
    Run(head_.forward, head_, false);
    Save(head_, &block->head_saved);
  }

  // On one stage the head multiplies with the embedding's own chunk.
  void BindTiedEmbedding(bool backward) {
    if (!context_.model.tied_embeddings() || plan_.p > 1) return;
    std::vector<Operand> embedding_env(env_.size());
    states_.Bind(states_.embedding_chunk(), backward, &embedding_env);
    for (const TensorId id :
         {ParameterId(TensorKind::kTokenEmbedding), GradientId(TensorKind::kTokenEmbedding)}) {
      env_[id] = embedding_env[id];
    }
  }

  // --- Backward of one block.

  void Backward(const ScheduleUnit& unit) {
    Block& block = BlockOf(unit);
    const bool last_micro_batch = unit.micro_batch == plan_.m - 1;
    Operand dy;
    if (IsLastStage(unit)) {
      tags_.block = tags_.chunk = context_.head_tag();
      Use(states_.head_chunk(), true);
      BindTiedEmbedding(true);
      Restore(head_, block.head_saved);
      env_[head_.labels] = {.buffer = labels_[unit.micro_batch]};
      Run(head_.backward, head_, states_.WritesGradients(states_.head_chunk(), unit.micro_batch));
      dy = env_[head_.input_gradient];
      states_.AfterBackward(states_.head_chunk(), unit.micro_batch, last_micro_batch);
    } else {
      dy = messages_[unit_];
    }
    if (block.offloaded) MoveToReloaded(&block);
    for (std::int64_t j = plan_.l - 1; j >= 0; --j) {
      SetLayerTags(unit, j);
      const std::size_t chunk = LayerChunk(unit, j);
      Use(chunk, true);
      Restore(layer_,
              std::span<const Operand>(block.saved)
                  .subspan(static_cast<std::size_t>(j) * layer_.saved.size(), layer_.saved.size()));
      env_[layer_.output_gradient] = dy;
      if (j == 0 && !IsFirstStage(unit)) {
        env_[layer_.input_gradient] = bwd_send_slots_.Next(
            writer_, InputBytes(), context_.shapes.dtype, Role::kCommunication);
      }
      Run(layer_.backward, layer_, states_.WritesGradients(chunk, unit.micro_batch));
      dy = env_[layer_.input_gradient];
      states_.AfterBackward(chunk, unit.micro_batch, last_micro_batch);
    }
    if (IsFirstStage(unit)) {
      const std::size_t chunk = states_.embedding_chunk();
      tags_.block = tags_.chunk = context_.embedding_tag();
      Use(chunk, true);
      Restore(embedding_, block.embedding_saved);
      env_[embedding_.tokens] = {.buffer = tokens_[unit.micro_batch]};
      env_[embedding_.output_gradient] = dy;
      Run(embedding_.backward, embedding_, states_.WritesGradients(chunk, unit.micro_batch));
      states_.AfterBackward(chunk, unit.micro_batch, last_micro_batch);
    } else {
      messages_[unit_] = dy;
    }
    block.saved = {};
    block.embedding_saved = {};
    block.head_saved = {};
  }

  // --- Pipeline.

  // Posted while the unit before computes, not sooner: its bytes exist from here on.
  void Receive(std::size_t u) {
    const ScheduleUnit& unit = units_[u];
    Operand& place = messages_[u];
    if (unit.backward) {
      place =
          bwd_recv_slots_.Next(writer_, InputBytes(), context_.shapes.dtype, Role::kCommunication);
    } else {
      PlaceBlock(unit);
      place = InputPlace(BlockOf(unit), 0);
    }
    std::vector<TaskId> after;
    if (u >= 2) after.push_back(unit_end_[u - 2]);
    Move(OpCode::kRecv, TaskKind::kRecv, unit.backward ? Lane::kRecvBwd : Lane::kRecvFwd,
         unit.backward ? Phase::kBackward : Phase::kForward, InputBytes(), {}, {&place, 1}, after);
    writer_->Join(unit.backward ? channels_.recv_bwd : channels_.recv_fwd);
  }
  void Send(std::size_t u) {
    const bool backward = units_[u].backward;
    Move(OpCode::kSend, TaskKind::kSend, backward ? Lane::kSendBwd : Lane::kSendFwd,
         backward ? Phase::kBackward : Phase::kForward, InputBytes(), {&messages_[u], 1}, {}, {});
    writer_->Join(backward ? channels_.send_bwd : channels_.send_fwd);
  }
  TaskId Move(OpCode op, TaskKind kind, Lane lane, Phase phase, std::int64_t bytes,
              std::span<const Operand> reads, std::span<const Operand> writes,
              std::span<const TaskId> after) {
    OpShape shape{.op = op, .dtype = context_.shapes.dtype};
    shape.dims[0] = bytes;
    tags_.kind = kind;
    tags_.lane = lane;
    tags_.phase = phase;
    return writer_->Add(writer_->Intern(shape), tags_, reads, writes, after);
  }

  // --- Activation offload (papers.md 1.6, 1.11).

  void Offload(Block* block) {
    tags_.block = tags_.chunk = kNoTag;
    if (offload_.tail_bytes > 0) {
      block->tail =
          writer_->AddBuffer(offload_.tail_bytes, context_.shapes.dtype, Role::kActivation);
      const Operand source =
          writer_->SliceOf({.buffer = block->slot}, offload_.host_bytes, offload_.tail_bytes);
      const Operand target{.buffer = block->tail};
      last_compute_ = Move(OpCode::kCopyOnDevice, TaskKind::kCompute, Lane::kCompute,
                           Phase::kForward, offload_.tail_bytes, {&source, 1}, {&target, 1}, {});
    }
    block->host = writer_->AddBuffer(offload_.host_bytes, context_.shapes.dtype, Role::kActivation,
                                     Pool::kPinnedHost);
    const Operand source = SlotHead(block->slot);
    const Operand target{.buffer = block->host};
    // Both directions go in step: the host buffer of the block that was reloaded last is free for
    // this one, which makes v p + p - 2 buffers enough.
    Move(OpCode::kCopyD2H, TaskKind::kD2H, Lane::kD2H, Phase::kForward, offload_.host_bytes,
         {&source, 1}, {&target, 1}, {&last_reload_, 1});
  }
  Operand SlotHead(BufferId slot) {
    return offload_.tail_bytes == 0 ? Operand{.buffer = slot}
                                    : writer_->SliceOf({.buffer = slot}, 0, offload_.host_bytes);
  }

  // The reload of the next backward's block starts when the backward before it starts, the first
  // one when the forward before the first backward does: just in time for two reload buffers.
  void StartReloads(std::size_t unit) {
    if (offload_.empty()) return;
    const auto next_backward = [&](std::size_t from) {
      while (from < units_.size() && !units_[from].backward) ++from;
      return from;
    };
    if (units_[unit].backward) {
      Reload(unit);  // Its own block, where it could not start earlier.
      Reload(next_backward(unit + 1));
    } else if (unit + 1 == next_backward(0)) {
      Reload(unit + 1);
    }
  }
  void Reload(std::size_t unit) {
    if (unit >= units_.size()) return;
    Block& block = BlockOf(units_[unit]);
    // Reloaded already, or its forward has not run yet.
    if (!block.offloaded || block.host == kNone) return;
    const TaskTags tags = tags_;
    tags_.micro_batch = units_[unit].micro_batch;
    tags_.stage = static_cast<std::uint16_t>(Stage(units_[unit]));
    tags_.block = tags_.chunk = kNoTag;
    block.slot =
        reload_slots_.Next(writer_, offload_.slot_bytes, context_.shapes.dtype, Role::kOffloadSlot)
            .buffer;
    const Operand source{.buffer = block.host};
    const Operand target = SlotHead(block.slot);
    std::vector<TaskId> after;
    if (unit_ >= 1) after.push_back(unit_end_[unit_ - 1]);
    last_reload_ = Move(OpCode::kCopyH2D, TaskKind::kH2D, Lane::kH2D, Phase::kBackward,
                        offload_.host_bytes, {&source, 1}, {&target, 1}, after);
    block.host = kNone;
    tags_ = tags;
  }
  // Rejoins the tail and points the stored tensors at the reload slot.
  void MoveToReloaded(Block* block) {
    tags_.block = tags_.chunk = kNoTag;
    if (offload_.tail_bytes > 0) {
      const Operand source{.buffer = block->tail};
      const Operand target =
          writer_->SliceOf({.buffer = block->slot}, offload_.host_bytes, offload_.tail_bytes);
      last_compute_ = Move(OpCode::kCopyOnDevice, TaskKind::kCompute, Lane::kCompute,
                           Phase::kBackward, offload_.tail_bytes, {&source, 1}, {&target, 1}, {});
    }
    for (const OffloadLayout::Entry& entry : offload_.entries) {
      block
          ->saved[static_cast<std::size_t>(entry.layer) * layer_.saved.size() + entry.saved_index] =
          SlotOperand(block->slot, entry);
    }
  }

  // Every shard of the batch adds its share, so that each rank of the last stage knows the loss.
  void ReduceLoss() {
    if (!context_.last_stage_here() || context_.shard_count() == 1) return;
    const Operand loss{.buffer = loss_};
    tags_ = TaskTags{};
    OpShape shape{.op = OpCode::kAllReduce, .dtype = Dtype::kFp64};
    shape.dims[0] = plan_.m * DtypeBytes(Dtype::kFp64);
    tags_.kind = TaskKind::kCollective;
    tags_.lane = Lane::kDp;
    tags_.phase = Phase::kGradientSync;
    writer_->Add(writer_->Intern(shape), tags_, {&loss, 1}, {&loss, 1});
    writer_->Join(context_.Communicator(GroupKind::kDpCp));
  }

  const RankContext& context_;
  const ResolvedPlan& plan_;
  PipelineChannels channels_;
  GraphWriter* writer_;
  ModelStates states_;
  BlockTemplate layer_, embedding_, head_;
  OffloadLayout offload_;
  const PipelineOrder& order_;
  const std::vector<ScheduleUnit>& units_;
  std::vector<Block> blocks_;
  std::vector<BufferId> tokens_, labels_;
  BufferId loss_ = kNone;

  std::size_t unit_ = 0;
  std::vector<TaskId> unit_end_;  // Last computation of each unit.
  TaskId last_compute_ = kNone;
  TaskId last_reload_ = kNone;
  std::vector<TaskId> after_;  // Waited for by the next task of a template.
  TaskTags tags_;
  std::vector<Operand> env_, scratch_;
  std::vector<Operand> messages_;  // By unit: its input if it was received, else its output.
  std::vector<std::size_t> uses_;
  std::size_t use_ = 0;
  SlotRing fwd_send_slots_, bwd_send_slots_, bwd_recv_slots_, forward_slots_, reload_slots_;
};

}  // namespace

void LowerRank(const RankContext& context, const PipelineChannels& channels,
               const PipelineOrder& order, GraphWriter* writer) {
  RankLowering(context, channels, order, writer).Run();
}

}  // namespace twinstep
