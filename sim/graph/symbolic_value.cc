#include "sim/graph/symbolic_value.h"

#include "sim/str_cat.h"

namespace twinstep {
namespace {

__extension__ using Wide = unsigned __int128;

// Sums of more complete contributions than this do not occur; a random field element is larger.
constexpr std::uint64_t kMostContributions = std::uint64_t{1} << 32;

std::uint64_t PrefixOf(std::uint64_t v, PartialAxis axis, std::int64_t at, std::int64_t total) {
  if (at == 0) return 0;
  if (at == total) return v;
  // The fraction in fixed point: equal fractions give equal keys, and different ones of
  // denominators below 2^32 different keys.
  const auto key =
      static_cast<std::uint64_t>((static_cast<Wide>(at) << 64) / static_cast<Wide>(total));
  return field::Hash({static_cast<std::uint64_t>(axis), v, key});
}

}  // namespace

std::uint64_t Telescope(std::uint64_t v, PartialAxis axis, std::int64_t lo, std::int64_t hi,
                        std::int64_t total) {
  return field::Subtract(PrefixOf(v, axis, hi, total), PrefixOf(v, axis, lo, total));
}

SymbolicValue Addend(std::uint64_t v, PartialAxis axis, std::int64_t lo, std::int64_t hi,
                     std::int64_t total) {
  SymbolicValue value;
  value.v = v;
  if (lo == 0 && hi == total) return value;
  value.v = Telescope(v, axis, lo, hi, total);
  value.present = Telescope(1, axis, lo, hi, total);
  value.partial = axis;
  const std::int64_t length = hi - lo;
  if (length > 0 && lo % length == 0 && total % length == 0) {
    value.part_index = static_cast<std::uint32_t>(lo / length);
    value.part_count = static_cast<std::uint32_t>(total / length);
  } else {
    value.part_index = kMixed;
  }
  return value;
}

void AddTo(SymbolicValue& sum, const SymbolicValue& addend) {
  sum.v = field::Add(sum.v, addend.v);
  sum.present = field::Add(sum.present, addend.present);
  if (sum.present != 0 && sum.present < kMostContributions) {
    sum.present = 1;
    sum.partial = PartialAxis::kComplete;
    sum.part_index = 0;
    sum.part_count = 1;
    return;
  }
  if (sum.partial == PartialAxis::kComplete) sum.partial = addend.partial;
  if (sum.part_index != addend.part_index || sum.part_count != addend.part_count) {
    sum.part_index = kMixed;
  }
}

void AppendMerged(SymbolicPieces& pieces, const SymbolicPiece& piece) {
  if (!pieces.empty()) {
    SymbolicPiece& last = pieces.back();
    if (last.end_offset() == piece.offset && last.begin + last.bytes == piece.begin &&
        last.total == piece.total && last.value.v == piece.value.v &&
        last.value.present == piece.value.present && last.value.SameShard(piece.value)) {
      last.bytes += piece.bytes;
      return;
    }
  }
  pieces.push_back(piece);
}

bool Rescale(SymbolicPieces& pieces, std::int64_t from_bytes, std::int64_t to_bytes) {
  if (from_bytes == to_bytes) return true;
  const auto scale = [&](std::int64_t& x) {
    const Wide product = static_cast<Wide>(x) * static_cast<Wide>(to_bytes);
    if (from_bytes <= 0 || product % static_cast<Wide>(from_bytes) != 0) return false;
    x = static_cast<std::int64_t>(product / static_cast<Wide>(from_bytes));
    return true;
  };
  for (SymbolicPiece& piece : pieces) {
    if (!scale(piece.offset) || !scale(piece.bytes) || !scale(piece.begin) || !scale(piece.total)) {
      return false;
    }
  }
  return true;
}

std::string DescribeRange(const SymbolicPiece& piece) {
  if (piece.IsWhole()) return "the whole tensor";
  if (piece.bytes > 0 && piece.begin % piece.bytes == 0 && piece.total % piece.bytes == 0) {
    return StrCat("shard ", piece.begin / piece.bytes, " of ", piece.total / piece.bytes);
  }
  return StrCat("bytes [", piece.begin, ", ", piece.begin + piece.bytes, ") of ", piece.total);
}

std::string DescribeShard(const SymbolicValue& value) {
  if (value.axis == ShardAxis::kWhole) return "the whole tensor";
  return StrCat(value.axis == ShardAxis::kRows ? "row" : "column", " shard ", value.axis_index,
                " of ", value.axis_count);
}

std::string DescribePartial(const SymbolicValue& value) {
  const char* axis = value.partial == PartialAxis::kFeatures ? " over features" : " over tokens";
  if (value.partial == PartialAxis::kComplete) return "a complete sum";
  if (value.part_index == kMixed) return StrCat("an incomplete sum of partials", axis);
  return StrCat("partial ", value.part_index, " of ", value.part_count, axis);
}

std::string DescribePieces(const SymbolicOperand& operand) {
  if (operand.pieces.empty()) return "holds bytes that nothing wrote";
  if (operand.pieces.size() == 1) {
    const SymbolicPiece& piece = operand.pieces[0];
    if (piece.offset != 0 || piece.bytes != operand.bytes) {
      return StrCat("holds a value in bytes [", piece.offset, ", ", piece.end_offset(), ") of ",
                    operand.bytes, " only");
    }
    return StrCat("holds ", DescribeRange(piece), " of ", DescribeShard(piece.value));
  }
  return StrCat("holds ", operand.pieces.size(), " pieces (the first is ",
                DescribeRange(operand.pieces[0]), " of ", DescribeShard(operand.pieces[0].value),
                ", the second ", DescribeRange(operand.pieces[1]), " of ",
                DescribeShard(operand.pieces[1].value), ")");
}

}  // namespace twinstep
