// Buffers that tasks of one kind take in turn: a new user waits until an earlier one is done.
//
//   SlotRing slots(2);
//   Operand slot = slots.Next(&writer, bytes, Dtype::kBf16, Role::kCommunication);
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/lower/graph_writer.h"

namespace twinstep {

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

}  // namespace twinstep
