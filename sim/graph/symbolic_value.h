// Values of the symbolic interpreter: a number of a finite field stands for a whole logical tensor,
// however a plan splits it.
//
// A tensor is split in three ways:
//   - over tensor parallel ranks, along rows or columns: a marker (axis, index, count);
//   - along its first axis (activations: tokens, over context parallel ranks, over tensor parallel
//     ranks by sequence parallelism, in pieces of a ring) or at any byte (ZeRO, offload): a byte
//     range of the rank's tensor-parallel shard;
//   - as an addend: a contraction over a split axis gives a partial sum, which is a number.
// Partial sums telescope: the addend of the range [lo, hi) of an axis is F(hi) - F(lo) with
// F(0) = 0, F(1) = v and F a hash elsewhere, so that addends of any complete set of disjoint ranges
// sum to v exactly, and no other sum does. `present` is the same telescope with 1 in place of v: it
// tells without knowing v whether a sum is complete.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph/field.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// The axis of a contraction whose addends a partial sum holds.
enum class PartialAxis : std::uint8_t { kComplete, kFeatures, kTokens };

// One addend `index` of `count` (for messages); kMixed where a value holds several.
inline constexpr std::uint32_t kMixed = kNone;

struct SymbolicValue {
  std::uint64_t v = 0;
  std::uint64_t present = 1;  // 1 = complete.
  std::uint32_t part_index = 0, part_count = 1;
  PartialAxis partial = PartialAxis::kComplete;
  ShardAxis axis = ShardAxis::kWhole;
  std::uint16_t axis_index = 0, axis_count = 1;

  bool SameShard(const SymbolicValue& other) const {
    return axis == other.axis && axis_index == other.axis_index && axis_count == other.axis_count;
  }
  bool operator==(const SymbolicValue&) const = default;
};

// A byte range of a tensor in a byte range of a buffer (or of an operand).
struct SymbolicPiece {
  std::int64_t offset = 0, bytes = 0;  // In the buffer or operand.
  std::int64_t begin = 0, total = 0;   // This is [begin, begin + bytes) of the shard's `total`.
  SymbolicValue value;

  std::int64_t end_offset() const { return offset + bytes; }
  bool IsWhole() const { return begin == 0 && bytes == total; }
};
using SymbolicPieces = std::vector<SymbolicPiece>;

// What a task reads or writes: pieces sorted by offset, which counts from the operand's start.
struct SymbolicOperand {
  std::int64_t bytes = 0;
  SymbolicPieces pieces;
};

// F(hi) - F(lo) of the telescope of `v`; 0 <= lo <= hi <= total.
std::uint64_t Telescope(std::uint64_t v, PartialAxis axis, std::int64_t lo, std::int64_t hi,
                        std::int64_t total);

// The addend that the range [lo, hi) of `total` of a contraction's axis gives to `v`: `v` itself
// where the range is the whole axis.
SymbolicValue Addend(std::uint64_t v, PartialAxis axis, std::int64_t lo, std::int64_t hi,
                     std::int64_t total);

// sum += addend.
void AddTo(SymbolicValue& sum, const SymbolicValue& addend);

// Appends to a list sorted by offset; joins the last piece where the two are neighbours of one
// tensor.
void AppendMerged(SymbolicPieces& pieces, const SymbolicPiece& piece);

// The pieces of an operand of `from_bytes` as pieces of one of `to_bytes` (another element type).
// False if a range would cut a byte.
bool Rescale(SymbolicPieces& pieces, std::int64_t from_bytes, std::int64_t to_bytes);

// "shard 1 of 2", "bytes [0, 256) of 1024", "partial 2 of 4", for messages; indices count from 0.
std::string DescribeRange(const SymbolicPiece& piece);
std::string DescribeShard(const SymbolicValue& value);
std::string DescribePartial(const SymbolicValue& value);
// "holds bytes that nothing wrote", "holds 3 pieces (...)": why an operand is not one whole value.
std::string DescribePieces(const SymbolicOperand& operand);

}  // namespace twinstep
