#include "exec/runtime/logical_tensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "exec/runtime/element_io.h"
#include "exec/runtime/tensor_runs.h"
#include "sim/graph/symbolic_tensors.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

using Key = std::tuple<std::uint16_t, TensorKind, StateKind>;

Key KeyOf(const TensorInfo& tensor) { return {LogicalBlock(tensor), tensor.kind, tensor.state}; }
bool IsState(const TensorInfo& tensor) {
  return tensor.state != StateKind::kData && tensor.state != StateKind::kGradient;
}

// A tensor while its pieces come in.
struct Assembly {
  LogicalTensor tensor;               // With padding rows.
  std::vector<std::uint32_t> holder;  // By element: the global rank that brought it.
  std::int64_t missing = 0;
};

Error Internal(const char* rule, std::uint32_t rank, std::string message) {
  return {.code = ExitCode::kInternal,
          .message = std::move(message),
          .rule = rule,
          .rank = static_cast<std::int64_t>(rank)};
}

}  // namespace

double LogicalTensor::At(std::int64_t element) const {
  return LoadElement(dtype, data.data(), element);
}

std::string Describe(const LogicalTensor& tensor) {
  return Describe(SymbolicTensor{tensor.block, tensor.kind, tensor.state, 0});
}

Result<std::vector<LogicalTensor>> GatherLogical(const Model& model, const TaskGraph& graph,
                                                 const Backend& backend) {
  const std::vector<TensorPlace> places = PlaceTensors(graph);
  std::map<Key, Assembly> assemblies;
  std::vector<std::byte> piece;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorInfo& info = graph.tensors[i];
    if (!IsState(info)) continue;
    const Buffer& buffer = graph.buffers[info.buffer];
    const std::int64_t element_bytes = DtypeBytes(buffer.dtype);
    const LogicalShape shape = LogicalShapeOf(model, info);
    const auto [it, is_new] = assemblies.try_emplace(KeyOf(info));
    Assembly& assembly = it->second;
    LogicalTensor& tensor = assembly.tensor;
    if (is_new) {
      const std::int64_t elements = shape.padded_rows * shape.columns;
      tensor = {.block = LogicalBlock(info),
                .kind = info.kind,
                .state = info.state,
                .dtype = buffer.dtype,
                .rows = shape.rows,
                .columns = shape.columns,
                .data = std::vector<std::byte>(static_cast<std::size_t>(elements * element_bytes))};
      assembly.holder.assign(static_cast<std::size_t>(elements), kNone);
      assembly.missing = elements;
    }
    const std::uint32_t rank = graph.ranks[buffer.rank].global_rank;
    for (const TensorRun& run : TensorRuns(model, info, places[i], element_bytes)) {
      const auto bytes = static_cast<std::size_t>(run.elements * element_bytes);
      piece.resize(bytes);
      backend.Read(info.buffer, run.offset, piece);
      std::byte* const target = tensor.data.data() + run.element * element_bytes;
      for (std::int64_t k = 0; k < run.elements; ++k) {
        std::uint32_t& holder = assembly.holder[static_cast<std::size_t>(run.element + k)];
        const std::byte* const from = piece.data() + k * element_bytes;
        std::byte* const to = target + k * element_bytes;
        const auto size = static_cast<std::size_t>(element_bytes);
        if (holder == kNone) {
          holder = rank;
          --assembly.missing;
          std::memcpy(to, from, size);
        } else if (std::memcmp(to, from, size) != 0) {
          return Internal(
              "replicas", rank,
              StrCat("the ", Describe(tensor), " differs between ranks ", holder, " and ", rank,
                     " at row ", (run.element + k) / shape.columns, ", column ",
                     (run.element + k) % shape.columns, ": ", LoadElement(tensor.dtype, to, 0),
                     " and ", LoadElement(tensor.dtype, from, 0)));
        }
      }
    }
  }
  std::vector<LogicalTensor> result;
  for (auto& [key, assembly] : assemblies) {
    LogicalTensor& tensor = assembly.tensor;
    if (assembly.missing > 0) {
      return Internal(
          "coverage", 0,
          StrCat("no rank holds ", assembly.missing, " elements of the ", Describe(tensor)));
    }
    tensor.data.resize(
        static_cast<std::size_t>(tensor.rows * tensor.columns * DtypeBytes(tensor.dtype)));
    result.push_back(std::move(tensor));
  }
  return result;
}

Status ScatterLogical(const Model& model, const TaskGraph& graph,
                      std::span<const LogicalTensor> tensors, Backend* backend) {
  std::map<Key, const LogicalTensor*> by_key;
  for (const LogicalTensor& tensor : tensors) {
    by_key.emplace(Key{tensor.block, tensor.kind, tensor.state}, &tensor);
  }
  for (const TensorInfo& info : graph.tensors) {
    if (!IsState(info)) continue;
    const LogicalShape shape = LogicalShapeOf(model, info);
    const Dtype dtype = graph.buffers[info.buffer].dtype;
    const auto found = by_key.find(KeyOf(info));
    const LogicalTensor wanted{.block = LogicalBlock(info),
                               .kind = info.kind,
                               .state = info.state,
                               .dtype = dtype,
                               .rows = shape.rows,
                               .columns = shape.columns,
                               .data = {}};
    if (found == by_key.end()) {
      return Error{.message = StrCat("the ", Describe(wanted), " is missing")};
    }
    const LogicalTensor& given = *found->second;
    const std::int64_t bytes = shape.rows * shape.columns * DtypeBytes(dtype);
    if (given.rows != shape.rows || given.columns != shape.columns || given.dtype != dtype ||
        static_cast<std::int64_t>(given.data.size()) != bytes) {
      return Error{.message =
                       StrCat("the ", Describe(wanted), " is ", given.rows, " x ", given.columns,
                              " ", Name(given.dtype), " (", given.data.size(), " bytes), not ",
                              shape.rows, " x ", shape.columns, " ", Name(dtype))};
    }
  }
  const std::vector<TensorPlace> places = PlaceTensors(graph);
  std::vector<std::byte> piece;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorInfo& info = graph.tensors[i];
    if (!IsState(info)) continue;
    const LogicalTensor& given = *by_key.at(KeyOf(info));
    const std::int64_t element_bytes = DtypeBytes(given.dtype);
    const std::int64_t elements = given.rows * given.columns;
    for (const TensorRun& run : TensorRuns(model, info, places[i], element_bytes)) {
      // Padding rows lie behind the others.
      piece.assign(static_cast<std::size_t>(run.elements * element_bytes), std::byte{0});
      const std::int64_t given_elements = std::min(run.elements, elements - run.element);
      if (given_elements > 0) {
        std::memcpy(piece.data(), given.data.data() + run.element * element_bytes,
                    static_cast<std::size_t>(given_elements * element_bytes));
      }
      backend->Write(info.buffer, run.offset, piece);
    }
  }
  return Unit{};
}

}  // namespace twinstep
