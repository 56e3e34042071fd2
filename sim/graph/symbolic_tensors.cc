#include "sim/graph/symbolic_tensors.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

enum Salt : std::uint64_t { kDataSalt = 101, kWeightSalt = 102, kMomentSalt = 103 };

const char* NameOf(StateKind state) {
  switch (state) {
    case StateKind::kParameter:
      return "parameter";
    case StateKind::kGradient:
      return "gradient";
    case StateKind::kMaster:
      return "master";
    case StateKind::kMoment1:
      return "first moment";
    case StateKind::kMoment2:
      return "second moment";
    case StateKind::kData:
      return "data";
  }
  return "invalid";
}

Error Mismatch(const TaskGraph& graph, const TensorInfo& tensor, std::string text) {
  Error error;
  error.code = ExitCode::kNo;
  error.rule = "symbolic";
  error.rank = graph.ranks[graph.buffers[tensor.buffer].rank].global_rank;
  error.message = StrCat("symbolic: rank ", error.rank, " after the iteration: ", text);
  return error;
}

// A piece of a logical tensor on some rank; positions in shard bytes times shards.
struct Found {
  SymbolicTensor tensor;
  std::uint16_t block = kNoTag;  // Tells copies of a tensor apart.
  std::int64_t begin = 0, end = 0, total = 0;
  std::uint32_t info = 0;
};

SymbolicValue SumOf(const SymbolicPieces& pieces) {
  SymbolicValue sum{.present = 0};
  for (const SymbolicPiece& piece : pieces) AddTo(sum, piece.value);
  return sum;
}

auto KeyOf(const Found& found) {
  return std::tuple(found.tensor.block, found.tensor.kind, found.tensor.state, found.block);
}

}  // namespace

std::vector<TensorPlace> PlaceTensors(const TaskGraph& graph) {
  // Optimizer states are never kept whole where they are sharded, so they tell how large a shard
  // is, and so whether a parameter buffer holds the whole chunk.
  std::map<std::pair<RankId, std::uint16_t>, std::int64_t> shard_elements;
  const auto elements = [&graph](const TensorInfo& tensor) {
    const Buffer& buffer = graph.buffers[tensor.buffer];
    return buffer.bytes / DtypeBytes(buffer.dtype);
  };
  const auto key = [&graph](const TensorInfo& tensor) {
    return std::pair(graph.buffers[tensor.buffer].rank, tensor.chunk);
  };
  for (const TensorInfo& tensor : graph.tensors) {
    if (tensor.state == StateKind::kMoment1) shard_elements[key(tensor)] = elements(tensor);
  }
  std::vector<TensorPlace> places;
  places.reserve(graph.tensors.size());
  for (const TensorInfo& tensor : graph.tensors) {
    const Slice& slice = tensor.slice;
    if (tensor.state == StateKind::kData) {
      places.push_back({slice.offset, slice.bytes, tensor.cp_index * slice.bytes,
                        tensor.cp_count * slice.bytes});
      continue;
    }
    const std::int64_t buffer_bytes = graph.buffers[tensor.buffer].bytes;
    const auto shard = shard_elements.find(key(tensor));
    const bool whole_chunk =
        tensor.shard_count == 1 ||
        (tensor.state == StateKind::kParameter && shard != shard_elements.end() &&
         elements(tensor) == tensor.shard_count * shard->second);
    const std::int64_t shard_bytes = whole_chunk ? buffer_bytes / tensor.shard_count : buffer_bytes;
    const std::int64_t shard_begin = tensor.shard_index * shard_bytes;
    const std::int64_t begin = std::max(slice.offset, shard_begin);
    const std::int64_t end = std::min(slice.offset + slice.bytes, shard_begin + shard_bytes);
    places.push_back({whole_chunk ? begin : begin - shard_begin,
                      std::max<std::int64_t>(0, end - begin), begin - slice.offset, slice.bytes});
  }
  return places;
}

std::uint16_t LogicalBlock(const TensorInfo& tensor) {
  switch (tensor.kind) {
    case TensorKind::kTokenEmbedding:
    case TensorKind::kPositionEmbedding:
    case TensorKind::kFinalNormWeight:
    case TensorKind::kFinalNormBias:
    case TensorKind::kHeadWeight:
      return kNoTag;
    default:
      return tensor.block;
  }
}

SymbolicValue InitialValue(const TensorInfo& tensor) {
  SymbolicValue value;
  const auto kind = static_cast<std::uint64_t>(tensor.kind);
  if (tensor.state == StateKind::kData) {
    value.v = field::Hash({kDataSalt, kind, tensor.micro_batch});
    return value;
  }
  value.axis = tensor.axis;
  value.axis_index = tensor.axis_index;
  value.axis_count = tensor.axis_count;
  const bool weight = tensor.state == StateKind::kParameter || tensor.state == StateKind::kMaster;
  value.v = field::Hash({weight ? kWeightSalt : kMomentSalt, kind, LogicalBlock(tensor),
                         weight ? 0 : static_cast<std::uint64_t>(tensor.state)});
  return value;
}

std::string Describe(const SymbolicTensor& tensor) {
  std::string text = StrCat(NameOf(tensor.state), " of ", Name(tensor.kind));
  if (tensor.block != kNoTag) text += StrCat(" of block ", tensor.block);
  return text;
}

Result<SymbolicResult> CollectTensors(const TaskGraph& graph,
                                      const std::vector<TensorPlace>& places,
                                      const SymbolicMemory& memory) {
  std::vector<Found> found;
  std::optional<std::uint32_t> first_loss;
  SymbolicResult result;
  SymbolicPieces pieces;
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorInfo& info = graph.tensors[i];
    const TensorPlace& place = places[i];
    const bool loss = info.kind == TensorKind::kLoss;
    if (place.bytes == 0 || info.state == StateKind::kGradient) continue;
    if (info.state == StateKind::kData && !loss) continue;
    pieces.clear();
    memory.Read(info.buffer, place.offset, place.bytes, pieces);
    if (loss) {
      const SymbolicValue sum = SumOf(pieces);
      if (sum.present != 1) {
        return Mismatch(graph, info,
                        StrCat("the loss ", pieces.empty() ? "was never written"
                                                           : "is " + DescribePartial(sum)));
      }
      if (first_loss.has_value() && sum.v != result.loss) {
        const TensorInfo& other = graph.tensors[*first_loss];
        return Mismatch(graph, info,
                        StrCat("the loss differs from rank ",
                               graph.ranks[graph.buffers[other.buffer].rank].global_rank, "'s"));
      }
      first_loss = i;
      result.loss = sum.v;
      continue;
    }
    const SymbolicTensor tensor{LogicalBlock(info), info.kind, info.state, 0};
    if (pieces.size() != 1 || pieces[0].bytes != place.bytes ||
        !pieces[0].value.SameShard(InitialValue(info))) {
      const SymbolicOperand operand{place.bytes, pieces};
      return Mismatch(graph, info,
                      StrCat("the ", Describe(tensor), " in buffer ", info.buffer, " ",
                             DescribePieces(operand)));
    }
    const SymbolicPiece& piece = pieces[0];
    if (piece.begin != place.begin || piece.total != place.total) {
      return Mismatch(graph, info,
                      StrCat("the ", Describe(tensor), " in buffer ", info.buffer, " holds ",
                             DescribeRange(piece), " at the place of bytes [", place.begin, ", ",
                             place.begin + place.bytes, ")"));
    }
    const std::int64_t origin = info.axis_index * piece.total;
    found.push_back({tensor, info.block, origin + piece.begin, origin + piece.begin + piece.bytes,
                     info.axis_count * piece.total, i});
    found.back().tensor.hash = piece.value.v;
  }

  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tuple(KeyOf(a), a.begin, a.info) < std::tuple(KeyOf(b), b.begin, b.info);
  });
  for (std::size_t i = 0; i < found.size();) {
    const Found& first = found[i];
    std::int64_t covered = 0;
    for (; i < found.size() && KeyOf(found[i]) == KeyOf(first); ++i) {
      const Found& piece = found[i];
      if (piece.tensor.hash != first.tensor.hash || piece.total != first.total) {
        const TensorInfo& other = graph.tensors[first.info];
        return Mismatch(graph, graph.tensors[piece.info],
                        StrCat("the ", Describe(piece.tensor), " differs from rank ",
                               graph.ranks[graph.buffers[other.buffer].rank].global_rank, "'s"));
      }
      if (piece.begin > covered) break;
      covered = std::max(covered, piece.end);
    }
    if (covered < first.total) {
      return Mismatch(graph, graph.tensors[first.info],
                      StrCat("no rank holds bytes from ", covered, " of ", first.total, " of the ",
                             Describe(first.tensor)));
    }
    const bool copy = !result.tensors.empty() && KeyOf(Found{.tensor = result.tensors.back()}) ==
                                                     KeyOf(Found{.tensor = first.tensor});
    if (copy && result.tensors.back() != first.tensor) {
      return Mismatch(graph, graph.tensors[first.info],
                      StrCat("the copy of the ", Describe(first.tensor), " in block ", first.block,
                             " differs from the other"));
    }
    if (!copy) result.tensors.push_back(first.tensor);
  }
  return result;
}

}  // namespace twinstep
