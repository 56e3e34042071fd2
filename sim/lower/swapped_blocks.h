// Activations of swapped blocks (ProTrain): all stored tensors of a block lie in a
// slot while its forward makes them; one copy takes them to host memory, and one brings them back
// into another slot before the backward.
//
//   Swapped swapped = swap.Begin();                    // A slot to be made in.
//   swap.PlaceSaved(swapped, &saved);
//   swap.Out(&swapped, tags, after);                   // Behind the block's forward.
//   swap.In(&swapped, tags, after);
//   swap.PlaceSaved(swapped, &saved);                  // Where they are now.
//   swap.Done(&swapped);                               // Behind the block's backward.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/lower/block_template.h"
#include "sim/lower/graph_writer.h"
#include "sim/lower/offload_layout.h"
#include "sim/lower/slot_ring.h"

namespace twinstep {

struct Swapped {
  BufferId slot = kNone, host = kNone;
};

class SwappedBlocks {
 public:
  // Two slots each way: one is filled while another is emptied.
  static constexpr std::int64_t kSlots = 2;

  SwappedBlocks(const BlockTemplate& block, Dtype dtype, GraphWriter* writer);

  std::int64_t bytes() const { return layout_.slot_bytes; }
  // Slots of other bytes from here on: those of the last pass are done with.
  void NewSlots();
  // Slots for the way back that wait for no backward, and whether another may be made.
  bool HasFreeSlot() const { return !free_.empty(); }
  bool MayMakeSlot() const { return made_ < kSlots; }
  Swapped Begin();
  void PlaceSaved(const Swapped& swapped, std::span<Operand> saved);
  // `after`: what else it waits for, kNone for nothing.
  TaskId Out(Swapped* swapped, const TaskTags& tags, TaskId after);
  // Into a free slot, else into a new one. `after`: when the slot's memory is free.
  void In(Swapped* swapped, const TaskTags& tags, std::span<const TaskId> after);
  void Done(Swapped* swapped);

 private:
  TaskId Copy(OpCode op, const TaskTags& tags, Operand from, Operand to,
              std::span<const TaskId> after);

  const BlockTemplate& block_;
  Dtype dtype_;
  GraphWriter* writer_;
  OffloadLayout layout_;
  SlotRing out_;
  std::vector<BufferId> free_;  // Slots for the way back.
  std::int64_t made_ = 0;
};

}  // namespace twinstep
