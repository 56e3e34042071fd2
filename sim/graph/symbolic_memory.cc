#include "sim/graph/symbolic_memory.h"

#include <algorithm>

namespace twinstep {
namespace {

// `piece` without what lies outside [begin, end) of its buffer; bytes <= 0 if nothing remains.
SymbolicPiece Cut(SymbolicPiece piece, std::int64_t begin, std::int64_t end) {
  const std::int64_t front = std::max<std::int64_t>(0, begin - piece.offset);
  const std::int64_t back = std::max<std::int64_t>(0, piece.end_offset() - end);
  piece.offset += front;
  piece.begin += front;
  piece.bytes -= front + back;
  return piece;
}

// First piece that ends behind `offset`.
template <typename Pieces>
auto FirstBehind(Pieces& pieces, std::int64_t offset) {
  return std::partition_point(pieces.begin(), pieces.end(), [offset](const SymbolicPiece& piece) {
    return piece.end_offset() <= offset;
  });
}

}  // namespace

void SymbolicMemory::Read(BufferId buffer, std::int64_t offset, std::int64_t bytes,
                          SymbolicPieces& out) const {
  if (slot_[buffer] == kNone) return;
  const SymbolicPieces& pieces = slots_[slot_[buffer]];
  const std::int64_t end = offset + bytes;
  for (auto it = FirstBehind(pieces, offset); it != pieces.end() && it->offset < end; ++it) {
    SymbolicPiece piece = Cut(*it, offset, end);
    piece.offset -= offset;
    AppendMerged(out, piece);
  }
}

void SymbolicMemory::Write(BufferId buffer, std::int64_t offset, std::int64_t bytes,
                           const SymbolicPieces& pieces) {
  if (slot_[buffer] == kNone) {
    if (free_.empty()) {
      slot_[buffer] = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      slot_[buffer] = free_.back();
      free_.pop_back();
    }
  }
  SymbolicPieces& held = slots_[slot_[buffer]];
  const std::int64_t end = offset + bytes;
  auto first = FirstBehind(held, offset);
  auto last = first;
  while (last != held.end() && last->offset < end) ++last;
  // In place where the write replaces as many pieces as it brings.
  const auto replaced = static_cast<std::size_t>(last - first);
  const bool aligned =
      replaced == 0 || (first->offset >= offset && (last - 1)->end_offset() <= end);
  if (!aligned || replaced != pieces.size()) {
    const auto at = static_cast<std::size_t>(first - held.begin());
    SymbolicPieces around;
    if (replaced > 0) {
      const SymbolicPiece left = Cut(*first, first->offset, offset);
      const SymbolicPiece right = Cut(*(last - 1), end, (last - 1)->end_offset());
      if (left.bytes > 0) around.push_back(left);
      around.insert(around.end(), pieces.size(), SymbolicPiece{});
      if (right.bytes > 0) around.push_back(right);
      first = held.erase(first, last);
      held.insert(first, around.begin(), around.end());
      first = held.begin() + static_cast<std::ptrdiff_t>(at + (left.bytes > 0 ? 1 : 0));
    } else {
      held.insert(first, pieces.size(), SymbolicPiece{});
      first = held.begin() + static_cast<std::ptrdiff_t>(at);
    }
  }
  for (const SymbolicPiece& piece : pieces) {
    *first = piece;
    first->offset += offset;
    ++first;
  }
}

void SymbolicMemory::Release(BufferId buffer) {
  if (slot_[buffer] == kNone) return;
  slots_[slot_[buffer]].clear();
  free_.push_back(slot_[buffer]);
  slot_[buffer] = kNone;
}

}  // namespace twinstep
