// Which bytes of an activation block live in host memory between forward and backward.
//
// An activation block (one micro-batch through one stage) stores the same tensors every time. A
// fixed part of it, `host_bytes`, passes through a slot buffer that one copy moves: whole tensors,
// large ones first, and at most one tensor cut at an exact byte (Yuan et al., ATC 2024). The slot
// holds the cut tensor whole, because kernels need it contiguous; its tail rests in a buffer of its
// own while the head is away.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/lower/block_template.h"

namespace twinstep {

struct OffloadLayout {
  struct Entry {
    std::int64_t layer = 0;        // Of the stage, 0 .. l-1.
    std::size_t saved_index = 0;   // Into BlockTemplate::saved.
    std::int64_t slot_offset = 0;  // In the slot.
  };
  std::vector<Entry> entries;
  std::int64_t host_bytes = 0;  // Prefix of the slot that is copied out and back.
  std::int64_t slot_bytes = 0;
  std::int64_t tail_bytes = 0;  // slot_bytes - host_bytes, kept on the GPU.

  bool empty() const { return entries.empty(); }
};

// `ratio` of the stored bytes of a stage's `layers`, in order; rounded to the buffer alignment.
OffloadLayout MakeOffloadLayout(const std::vector<const BlockTemplate*>& layers, double ratio);

}  // namespace twinstep
