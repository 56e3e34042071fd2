#include "sim/lower/swapped_blocks.h"

namespace twinstep {

SwappedBlocks::SwappedBlocks(const BlockTemplate& block, Dtype dtype, GraphWriter* writer)
    : block_(block),
      dtype_(dtype),
      writer_(writer),
      layout_(MakeOffloadLayout({&block}, 1.0)),
      out_(kSlots) {}

void SwappedBlocks::NewSlots() {
  out_ = SlotRing(kSlots);
  free_.clear();
  made_ = 0;
}

Swapped SwappedBlocks::Begin() {
  return {.slot = out_.Next(writer_, layout_.slot_bytes, dtype_, Role::kOffloadSlot).buffer};
}

void SwappedBlocks::PlaceSaved(const Swapped& swapped, std::span<Operand> saved) {
  for (const OffloadLayout::Entry& entry : layout_.entries) {
    saved[entry.saved_index] =
        writer_->SliceOf({.buffer = swapped.slot}, entry.slot_offset,
                         block_.Tensor(block_.saved[entry.saved_index]).bytes);
  }
}

TaskId SwappedBlocks::Copy(OpCode op, const TaskTags& tags, Operand from, Operand to,
                           std::span<const TaskId> after) {
  const bool to_gpu = op == OpCode::kCopyH2D;
  OpShape shape{.op = op, .dtype = dtype_};
  shape.dims[0] = layout_.slot_bytes;
  TaskTags own = tags;
  own.kind = to_gpu ? TaskKind::kH2D : TaskKind::kD2H;
  own.lane = to_gpu ? Lane::kH2D : Lane::kD2H;
  own.phase = to_gpu ? Phase::kBackward : Phase::kForward;
  own.chunk = kNoTag;
  return writer_->Add(writer_->Intern(shape), own, {&from, 1}, {&to, 1}, after);
}

TaskId SwappedBlocks::Out(Swapped* swapped, const TaskTags& tags, TaskId after) {
  swapped->host =
      writer_->AddBuffer(layout_.slot_bytes, dtype_, Role::kActivation, Pool::kPinnedHost);
  const TaskId copy = Copy(OpCode::kCopyD2H, tags, {.buffer = swapped->slot},
                           {.buffer = swapped->host}, {&after, 1});
  swapped->slot = kNone;
  return copy;
}

void SwappedBlocks::In(Swapped* swapped, const TaskTags& tags, std::span<const TaskId> after) {
  if (free_.empty()) {
    swapped->slot = writer_->AddBuffer(layout_.slot_bytes, dtype_, Role::kOffloadSlot);
    ++made_;
  } else {
    swapped->slot = free_.back();
    free_.pop_back();
  }
  Copy(OpCode::kCopyH2D, tags, {.buffer = swapped->host}, {.buffer = swapped->slot}, after);
  swapped->host = kNone;
}

void SwappedBlocks::Done(Swapped* swapped) {
  free_.push_back(swapped->slot);
  swapped->slot = kNone;
}

}  // namespace twinstep
