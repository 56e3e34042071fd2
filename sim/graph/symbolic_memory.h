// What the buffers of a task graph hold while the symbolic interpreter runs: for every byte range,
// which bytes of which value. Most buffers hold one value; chunks hold a tensor after the other,
// and an offloaded block's slots hold tensors that end in the middle.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/symbolic_value.h"

namespace twinstep {

class SymbolicMemory {
 public:
  explicit SymbolicMemory(std::size_t buffer_count) : slot_(buffer_count, kNone) {}

  // Appends the pieces that lie in [offset, offset + bytes) of a buffer, cut to this range, with
  // offsets counted from its start; neighbours of one tensor are joined.
  void Read(BufferId buffer, std::int64_t offset, std::int64_t bytes, SymbolicPieces& out) const;

  // Overwrites [offset, offset + bytes) of a buffer. Offsets of `pieces` count from `offset`;
  // bytes of the range that no piece covers become unwritten.
  void Write(BufferId buffer, std::int64_t offset, std::int64_t bytes,
             const SymbolicPieces& pieces);

  // Forgets what a buffer holds.
  void Release(BufferId buffer);

 private:
  std::vector<std::uint32_t> slot_;  // By buffer, into slots_; kNone = nothing written.
  std::vector<SymbolicPieces> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace twinstep
