#include "sim/lower/rank_lowering.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/lower/block_template.h"
#include "sim/lower/model_states.h"
#include "sim/lower/offload_layout.h"
#include "sim/lower/schedule.h"
#include "sim/lower/slot_ring.h"
#include "sim/lower/swapped_blocks.h"

namespace twinstep {
namespace {

using GroupKind = Placement::GroupKind;

class RankLowering {
 public:
  RankLowering(const RankContext& context, const PipelineChannels& channels,
               const PipelineOrder& order, GraphWriter* writer)
      : context_(context),
        plan_(context.plan),
        channels_(channels),
        writer_(writer),
        units_of_states_(context),
        states_(MakeModelStates(context, writer)),
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
        .sums_after_products = context.framework.sums_after_products(),
        .writer = writer};
    layer_ = MakeLayerTemplate(templates);
    if (Chooses(BLOCK_CHECKPOINT)) checkpointed_layer_ = MakeCheckpointedLayer(templates);
    if (context.first_stage_here()) embedding_ = MakeEmbeddingTemplate(templates);
    if (context.last_stage_here()) head_ = MakeHeadTemplate(templates);
    std::vector<const BlockTemplate*> stage;
    for (std::int64_t j = 0; j < plan_.l; ++j) stage.push_back(&LayerTemplate(j));
    offload_ = MakeOffloadLayout(stage, plan_.offload_ratio);
    if (Chooses(BLOCK_SWAP)) swap_.emplace(layer_, context.shapes.dtype, writer);
    const std::size_t tensors = std::max({layer_.tensors.size(), checkpointed_layer_.tensors.size(),
                                          embedding_.tensors.size(), head_.tensors.size()});
    env_.resize(kFirstTensor + tensors);
    blocks_.resize(static_cast<std::size_t>(plan_.m * plan_.v));
    if (context.cluster.gpu().gemm_workspace_bytes() > 0) {
      writer->AddBuffer(context.cluster.gpu().gemm_workspace_bytes(), Dtype::kUint8,
                        Role::kWorkspace, Pool::kGpu, /*persistent=*/true);
    }
    AddData();
  }

  void Run() {
    after_ = states_->Begin(ListUses());
    messages_.resize(units_.size());
    for (const IssueItem& item : order_.items) {
      const std::size_t u = item.unit;
      const ScheduleUnit& unit = units_[u];
      SetUnitTags(unit);
      switch (item.kind) {
        case IssueItem::Kind::kReceive:
          if (!context_.framework.blocking_messages()) Receive(u);
          break;
        case IssueItem::Kind::kSend:
          Send(u);
          break;
        case IssueItem::Kind::kUnit:
          unit_ = u;
          if (context_.framework.blocking_messages() && IsReceived(unit)) Receive(u);
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
    states_->FinishIteration(last_compute_);
  }

 private:
  // What a block (micro-batch x stage) leaves for its backward.
  struct Block {
    struct Layer {
      std::vector<Operand> places;  // Of the stored tensors while the forward makes them.
      std::vector<Operand> saved;   // As its template's `saved`.
      Swapped swapped;
    };
    std::vector<Layer> layers;
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
  bool IsReceived(const ScheduleUnit& unit) const {
    return unit.backward ? !IsLastStage(unit) : !IsFirstStage(unit);
  }
  bool IsFirstStage(const ScheduleUnit& unit) const { return Stage(unit) == 0; }
  bool IsLastStage(const ScheduleUnit& unit) const { return Stage(unit) == plan_.p * plan_.v - 1; }
  Block& BlockOf(const ScheduleUnit& unit) {
    return blocks_[static_cast<std::size_t>(unit.micro_batch * plan_.v + unit.chunk)];
  }
  // The last stage's backward follows its forward at once (Yuan et al., ATC 2024: not offloaded).
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

  // Whether gradients are written, of the first micro-batch that adds up, or added to.
  struct Writes {
    bool gradients = false;
    bool token_embedding = false;  // The one gradient that two units share.
  };

  void Run(const std::vector<TemplateOp>& ops, const BlockTemplate& block, const Writes& writes) {
    for (const TemplateOp& op : ops) {
      scratch_.clear();
      const TemplateOperand* operand = block.operands.data() + op.operand_begin;
      const TemplateOperand* written = operand + op.read_count;
      const bool token_embedding =
          op.write_count > 0 && written[0].tensor == GradientId(TensorKind::kTokenEmbedding);
      const bool first = token_embedding ? writes.token_embedding : writes.gradients;
      const std::size_t reads = op.read_count - (first ? op.accumulate_reads : 0u);
      for (std::size_t i = 0; i < reads; ++i) scratch_.push_back(Resolve(block, operand[i]));
      operand = written;
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

  // --- Model states.

  std::vector<StateUse> ListUses() const {
    std::vector<StateUse> uses;
    for (const ScheduleUnit& unit : units_) {
      const auto begin = static_cast<std::ptrdiff_t>(uses.size());
      const auto add = [&](std::size_t state_unit) {
        uses.push_back(
            {.unit = state_unit, .backward = unit.backward, .micro_batch = unit.micro_batch});
      };
      if (IsFirstStage(unit)) add(units_of_states_.embedding);
      for (std::int64_t j = 0; j < plan_.l; ++j) add(LayerUnit(unit, j));
      if (IsLastStage(unit)) add(units_of_states_.head);
      if (unit.backward) std::reverse(uses.begin() + begin, uses.end());
    }
    return uses;
  }
  std::size_t LayerUnit(const ScheduleUnit& unit, std::int64_t j) const {
    return static_cast<std::size_t>(unit.chunk * plan_.l + j);
  }
  // Tags and operands of the next unit's tasks.
  void Use(std::size_t unit, std::uint16_t block) {
    tags_.block = block;
    tags_.chunk = states_->ChunkTag(unit);
    ResetEnv();
    states_->BindNext(&env_);
    if (context_.framework.parameter_copies().blocking()) {
      WaitFor(writer_->last_on(Lane::kH2D));
      WaitFor(writer_->last_on(Lane::kDp));  // What gathers the copied shards.
    }
  }
  bool WritesGradients(std::size_t unit, const ScheduleUnit& schedule_unit) const {
    return states_->WritesGradients(unit, schedule_unit.micro_batch);
  }

  void AfterBackward(std::size_t unit, std::int64_t micro_batch, bool last) {
    states_->AfterBackward(unit, micro_batch, last);
    if (context_.framework.gradient_copies().blocking()) WaitFor(writer_->last_on(Lane::kD2H));
  }
  // Of the next computation.
  void WaitFor(TaskId task) {
    if (task != kNone) after_.push_back(task);
  }

  // --- Choices of blocks.

  bool Chooses(BlockActivations choice) const {
    return std::find(plan_.blocks.begin(), plan_.blocks.end(), choice) != plan_.blocks.end();
  }
  BlockActivations ChoiceOf(std::int64_t layer) const {
    return plan_.blocks.empty() ? BLOCK_KEEP : plan_.blocks[static_cast<std::size_t>(layer)];
  }
  bool IsSwapped(std::int64_t layer) const { return ChoiceOf(layer) == BLOCK_SWAP; }
  const BlockTemplate& LayerTemplate(std::int64_t layer) const {
    return ChoiceOf(layer) == BLOCK_CHECKPOINT ? checkpointed_layer_ : layer_;
  }
  static BlockTemplate MakeCheckpointedLayer(const TemplateContext& context) {
    ResolvedPlan full = context.plan;
    full.recompute = RECOMPUTE_FULL;
    return MakeLayerTemplate({.model = context.model,
                              .plan = full,
                              .shapes = context.shapes,
                              .at = context.at,
                              .attention_fp32_dq = context.attention_fp32_dq,
                              .writer = context.writer});
  }
  std::int64_t LayerOf(const ScheduleUnit& unit, std::int64_t j) const {
    return Stage(unit) * plan_.l + j;
  }

  // --- Forward of one block.

  void Forward(const ScheduleUnit& unit) {
    Block& block = BlockOf(unit);
    swaps_out_.clear();
    if (IsFirstStage(unit)) PlaceBlock(unit);
    Operand x = messages_[unit_];
    if (IsFirstStage(unit)) {
      Use(units_of_states_.embedding, context_.embedding_tag());
      env_[embedding_.tokens] = {.buffer = tokens_[unit.micro_batch]};
      env_[embedding_.output] = InputPlace(unit, 0);
      Run(embedding_.forward, embedding_, {});
      Save(embedding_, &block.embedding_saved);
      x = env_[embedding_.output];
    }

    for (std::int64_t j = 0; j < plan_.l; ++j) {
      const BlockTemplate& layer = LayerTemplate(LayerOf(unit, j));
      Block::Layer& kept = block.layers[static_cast<std::size_t>(j)];
      Use(LayerUnit(unit, j), LayerTag(unit, j));
      WaitForSwaps(j);
      Restore(layer, kept.places);
      env_[layer.input] = x;
      if (j + 1 < plan_.l) {
        env_[layer.output] = InputPlace(unit, j + 1);
      } else if (!IsLastStage(unit)) {
        env_[layer.output] = fwd_send_slots_.Next(writer_, InputBytes(), context_.shapes.dtype,
                                                  Role::kCommunication);
      } else {
        env_[layer.output] = NewActivation();  // The head's stored input.
      }
      Run(layer.forward, layer, {});
      Save(layer, &kept.saved);
      x = env_[layer.output];
      kept.places = {};
      if (IsSwapped(LayerOf(unit, j))) {
        const TaskId copy = swap_->Out(&kept.swapped, tags_, SwapsBlock() ? last_compute_ : kNone);
        swaps_out_.push_back(
            {.waiting_layer = j + std::max(SwapDistance(unit), SwappedBlocks::kSlots),
             .copy = copy});
        if (SwapsBlock()) WaitFor(copy);
      }
    }

    if (IsLastStage(unit)) {
      WaitForSwaps(std::numeric_limits<std::int64_t>::max());
      HeadForward(unit, x, &block);
    } else {
      if (block.offloaded) Offload(&block);
      messages_[unit_] = x;
    }
  }

  // A swapped layer has left when the next one could be made, or its memory would be free too late:
  // computation waits for copies that take longer.
  void WaitForSwaps(std::int64_t layer) {
    while (!swaps_out_.empty() && swaps_out_.front().waiting_layer <= layer) {
      after_.push_back(swaps_out_.front().copy);
      swaps_out_.pop_front();
    }
  }

  // Decides where the block's stored tensors go: its part of an offload slot, slots of swapped
  // layers, or new buffers.
  void PlaceBlock(const ScheduleUnit& unit) {
    Block& block = BlockOf(unit);
    block.layers.assign(static_cast<std::size_t>(plan_.l), {});
    if (swap_ && plan_.p == 1 && BackwardIsNext(unit)) {
      swap_->NewSlots();
    }
    for (std::int64_t j = 0; j < plan_.l; ++j) {
      Block::Layer& layer = block.layers[static_cast<std::size_t>(j)];
      layer.places.assign(LayerTemplate(LayerOf(unit, j)).saved.size(), Operand{});
      if (!IsSwapped(LayerOf(unit, j))) continue;
      layer.swapped = swap_->Begin();
      swap_->PlaceSaved(layer.swapped, layer.places);
    }
    block.offloaded = Offloads(unit);
    // A last stage's block takes its turn in the slots as well, if its backward is next: it holds
    // one no longer than a copy would.
    const bool has_slot = block.offloaded || (RankOffloads() && BackwardIsNext(unit));
    if (offload_.empty() || !has_slot) return;
    block.slot =
        forward_slots_.Next(writer_, offload_.slot_bytes, context_.shapes.dtype, Role::kOffloadSlot)
            .buffer;
    for (const OffloadLayout::Entry& entry : offload_.entries) {
      block.layers[static_cast<std::size_t>(entry.layer)].places[entry.saved_index] =
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

  std::uint16_t LayerTag(const ScheduleUnit& unit, std::int64_t j) const {
    return static_cast<std::uint16_t>(LayerOf(unit, j));
  }
  std::int64_t InputBytes() const {
    return context_.shapes.shard_tokens * context_.shapes.hidden *
           DtypeBytes(context_.shapes.dtype);
  }
  Operand SlotOperand(BufferId slot, const OffloadLayout::Entry& entry) {
    // Stages store alike, so the first stage's layer tells.
    const BlockTemplate& layer = LayerTemplate(entry.layer);
    return writer_->SliceOf({.buffer = slot}, entry.slot_offset,
                            layer.Tensor(layer.saved[entry.saved_index]).bytes);
  }
  // Where the input of layer j of the stage, made by another block or rank, is to be stored.
  Operand InputPlace(const ScheduleUnit& unit, std::int64_t j) {
    const BlockTemplate& layer = LayerTemplate(LayerOf(unit, j));
    const Block::Layer& kept = BlockOf(unit).layers[static_cast<std::size_t>(j)];
    for (std::size_t i = 0; i < layer.saved.size(); ++i) {
      if (layer.saved[i] == layer.input && kept.places[i].buffer != kNone) return kept.places[i];
    }
    return NewActivation();
  }
  Operand NewActivation() {
    return {.buffer = writer_->AddBuffer(InputBytes(), context_.shapes.dtype, Role::kActivation)};
  }

  void HeadForward(const ScheduleUnit& unit, Operand x, Block* block) {
    Use(units_of_states_.head, context_.head_tag());
    if (TiesOnOneStage()) states_->BindTiedEmbedding(false, &env_);
    env_[head_.input] = x;
    env_[head_.labels] = {.buffer = labels_[unit.micro_batch]};
    constexpr std::int64_t kLossBytes = DtypeBytes(Dtype::kFp64);
    env_[head_.loss] = plan_.m == 1 ? Operand{.buffer = loss_}
                                    : writer_->SliceOf({.buffer = loss_},
                                                       unit.micro_batch * kLossBytes, kLossBytes);
    Run(head_.forward, head_, {});
    Save(head_, &block->head_saved);
  }

  // On one stage the head multiplies with the embedding's own table.
  bool TiesOnOneStage() const { return context_.model.tied_embeddings() && plan_.p == 1; }

  // --- Backward of one block.

  void Backward(const ScheduleUnit& unit) {
    Block& block = BlockOf(unit);
    const bool last = unit.micro_batch == plan_.m - 1;
    const auto states_of = [&](std::size_t state_unit) {
      return Writes{.gradients = WritesGradients(state_unit, unit)};
    };
    Operand dy;
    if (IsLastStage(unit)) {
      const std::size_t head = units_of_states_.head;
      Use(head, context_.head_tag());
      if (TiesOnOneStage()) states_->BindTiedEmbedding(true, &env_);
      Restore(head_, block.head_saved);
      env_[head_.labels] = {.buffer = labels_[unit.micro_batch]};
      Writes writes = states_of(head);
      writes.token_embedding =
          TiesOnOneStage() ? WritesGradients(units_of_states_.embedding, unit) : writes.gradients;
      Run(head_.backward, head_, writes);
      dy = env_[head_.input_gradient];
      AfterBackward(head, unit.micro_batch, last);
    } else {
      dy = messages_[unit_];
    }
    if (block.offloaded) MoveToReloaded(&block);
    swap_room_bytes_ = 0;
    for (std::int64_t j = plan_.l - 1; j >= 0; --j) {
      const BlockTemplate& layer = LayerTemplate(LayerOf(unit, j));
      Block::Layer& kept = block.layers[static_cast<std::size_t>(j)];
      if (swap_) BringSwapped(unit, j);
      Use(LayerUnit(unit, j), LayerTag(unit, j));
      Restore(layer, kept.saved);
      env_[layer.output_gradient] = dy;
      if (j == 0 && !IsFirstStage(unit)) {
        env_[layer.input_gradient] = bwd_send_slots_.Next(
            writer_, InputBytes(), context_.shapes.dtype, Role::kCommunication);
      }
      Run(layer.backward, layer, states_of(LayerUnit(unit, j)));
      dy = env_[layer.input_gradient];
      AfterBackward(LayerUnit(unit, j), unit.micro_batch, last);
      if (IsSwapped(LayerOf(unit, j))) {
        swap_->Done(&kept.swapped);
      } else {
        swap_room_bytes_ += layer.SavedBytes();
        if (j == FirstCheckpointed(unit)) {
          swap_room_bytes_ += layer_.SavedBytes() - layer.SavedBytes();  // Recomputed, once more.
        }
      }
      kept.saved = {};
    }
    if (IsFirstStage(unit)) {
      const std::size_t embedding = units_of_states_.embedding;
      Use(embedding, context_.embedding_tag());
      Restore(embedding_, block.embedding_saved);
      env_[embedding_.tokens] = {.buffer = tokens_[unit.micro_batch]};
      env_[embedding_.output_gradient] = dy;
      Writes writes = states_of(embedding);
      writes.token_embedding = writes.gradients;
      Run(embedding_.backward, embedding_, writes);
      AfterBackward(embedding, unit.micro_batch, last);
    } else {
      messages_[unit_] = dy;
    }
    block.embedding_saved = {};
    block.head_saved = {};
  }

  // Before the backward of layer j: brings back what it needs, and the next swapped layers, where
  // other blocks have left memory for them, and not sooner than the layers between two
  // swapped ones.
  void BringSwapped(const ScheduleUnit& unit, std::int64_t j) {
    std::vector<Block::Layer>& layers = BlockOf(unit).layers;
    const std::int64_t ahead = SwapsBlock() ? 0 : SwapDistance(unit);
    for (std::int64_t k = j; k >= 0 && j - k <= ahead; --k) {
      Swapped& swapped = layers[static_cast<std::size_t>(k)].swapped;
      if (!IsSwapped(LayerOf(unit, k)) || swapped.host == kNone) continue;
      const bool makes_slot = !swap_->HasFreeSlot();
      const bool may_make_slot = swap_->MayMakeSlot() && swap_room_bytes_ >= swap_->bytes();
      if (k < j && makes_slot && !may_make_slot) return;
      TaskTags tags = tags_;
      tags.block = LayerTag(unit, k);
      tags.chunk = kNoTag;
      swap_->In(&swapped, tags, {&last_compute_, 1});
      swap_->PlaceSaved(swapped, layers[static_cast<std::size_t>(k)].saved);
      if (makes_slot) swap_room_bytes_ -= swap_->bytes();
    }
  }
  bool SwapsBlock() const { return context_.framework.activation_copies().blocking(); }
  // Behind its backward nothing is recomputed: what that took is free for good. The stage's number
  // of layers if none is checkpointed.
  std::int64_t FirstCheckpointed(const ScheduleUnit& unit) const {
    std::int64_t j = 0;
    while (j < plan_.l && ChoiceOf(LayerOf(unit, j)) != BLOCK_CHECKPOINT) ++j;
    return j;
  }
  // The least that lies between swapped layers of the stage.
  std::int64_t SwapDistance(const ScheduleUnit& unit) const {
    std::int64_t least = plan_.l, last = -plan_.l;
    for (std::int64_t j = 0; j < plan_.l; ++j) {
      if (!IsSwapped(LayerOf(unit, j))) continue;
      least = std::min(least, j - last);
      last = j;
    }
    return least;
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
      place = InputPlace(unit, 0);
    }
    std::vector<TaskId> after;
    const std::size_t ahead = context_.framework.blocking_messages() ? 1 : 2;
    if (u >= ahead) after.push_back(unit_end_[u - ahead]);
    Move(OpCode::kRecv, TaskKind::kRecv, unit.backward ? Lane::kRecvBwd : Lane::kRecvFwd,
         unit.backward ? Phase::kBackward : Phase::kForward, MessageBytes(unit), {}, {&place, 1},
         after);
    writer_->Join(unit.backward ? channels_.recv_bwd : channels_.recv_fwd);
  }
  void Send(std::size_t u) {
    const bool backward = units_[u].backward;
    const TaskId send =
        Move(OpCode::kSend, TaskKind::kSend, backward ? Lane::kSendBwd : Lane::kSendFwd,
             backward ? Phase::kBackward : Phase::kForward, MessageBytes(units_[u]),
             {&messages_[u], 1}, {}, {});
    writer_->Join(backward ? channels_.send_bwd : channels_.send_fwd);
    if (context_.framework.blocking_messages()) WaitFor(send);
  }
  std::int64_t MessageBytes(const ScheduleUnit& unit) const {
    const bool splits = context_.framework.split_activation_messages() && !unit.backward;
    return splits ? InputBytes() / plan_.t : InputBytes();
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

  // --- Activation offload (Yuan et al., ATC 2024).

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
      block->layers[static_cast<std::size_t>(entry.layer)].saved[entry.saved_index] =
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
  const StateUnits units_of_states_;
  std::unique_ptr<ModelStates> states_;
  BlockTemplate layer_, checkpointed_layer_, embedding_, head_;
  OffloadLayout offload_;
  std::optional<SwappedBlocks> swap_;
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
  // Of the forward at hand: copies of swapped layers, and the layer that waits for each.
  struct SwapOut {
    std::int64_t waiting_layer = 0;
    TaskId copy = kNone;
  };
  std::deque<SwapOut> swaps_out_;
  // Of the backward at hand: memory that its layers have freed, for swapped ones to come back.
  std::int64_t swap_room_bytes_ = 0;
  SlotRing fwd_send_slots_, bwd_send_slots_, bwd_recv_slots_, forward_slots_, reload_slots_;
};

}  // namespace

void LowerRank(const RankContext& context, const PipelineChannels& channels,
               const PipelineOrder& order, GraphWriter* writer) {
  RankLowering(context, channels, order, writer).Run();
}

}  // namespace twinstep
