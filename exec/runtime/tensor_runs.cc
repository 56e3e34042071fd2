#include "exec/runtime/tensor_runs.h"

#include <algorithm>

namespace twinstep {
namespace {

bool IsVocabulary(TensorKind kind) {
  return kind == TensorKind::kTokenEmbedding || kind == TensorKind::kHeadWeight;
}

// The split dimension consists of sections that are each split evenly: Q, K, V; gate, up.
std::vector<std::int64_t> Sections(const Model& model, TensorKind kind, std::int64_t length) {
  if (kind == TensorKind::kQkvWeight || kind == TensorKind::kQkvBias) {
    const std::int64_t heads = model.attention_heads();
    const std::int64_t kv_heads = model.kv_heads() == 0 ? heads : model.kv_heads();
    const std::int64_t kv = length / (heads + 2 * kv_heads) * kv_heads;
    return {length - 2 * kv, kv, kv};
  }
  const bool gated = model.activation() == SWIGLU ||
                     (model.activation() == ACTIVATION_DEFAULT && model.family() == LLAMA);
  if (gated && (kind == TensorKind::kUpWeight || kind == TensorKind::kUpBias)) {
    return {length / 2, length / 2};
  }
  return {length};
}

// Appends the part of a run that lies in elements [begin, end) of the rank's tensor.
void AddRun(std::int64_t local, std::int64_t element, std::int64_t elements, std::int64_t begin,
            std::int64_t end, std::int64_t offset, std::int64_t element_bytes,
            std::vector<TensorRun>* runs) {
  const std::int64_t first = std::max(local, begin);
  const std::int64_t last = std::min(local + elements, end);
  if (first >= last) return;
  runs->push_back({.offset = offset + (first - begin) * element_bytes,
                   .element = element + (first - local),
                   .elements = last - first});
}

}  // namespace

LogicalShape LogicalShapeOf(const Model& model, const TensorInfo& tensor) {
  LogicalShape shape{.rows = tensor.rows, .columns = tensor.columns};
  if (tensor.axis == ShardAxis::kRows) shape.rows *= tensor.axis_count;
  if (tensor.axis == ShardAxis::kColumns) shape.columns *= tensor.axis_count;
  shape.padded_rows = shape.rows;
  if (IsVocabulary(tensor.kind)) shape.rows = model.vocab_size();
  return shape;
}

std::vector<TensorRun> TensorRuns(const Model& model, const TensorInfo& tensor,
                                  const TensorPlace& place, std::int64_t element_bytes) {
  std::vector<TensorRun> runs;
  if (place.bytes == 0) return runs;
  const std::int64_t begin = place.begin / element_bytes;
  const std::int64_t end = begin + place.bytes / element_bytes;
  const LogicalShape shape = LogicalShapeOf(model, tensor);
  const auto add = [&](std::int64_t local, std::int64_t element, std::int64_t elements) {
    AddRun(local, element, elements, begin, end, place.offset, element_bytes, &runs);
  };
  if (tensor.axis == ShardAxis::kWhole) {
    add(0, 0, tensor.rows * tensor.columns);
    return runs;
  }
  const bool by_rows = tensor.axis == ShardAxis::kRows;
  const std::int64_t length = by_rows ? shape.padded_rows : shape.columns;
  std::int64_t local_begin = 0, section_begin = 0;
  for (const std::int64_t section : Sections(model, tensor.kind, length)) {
    const std::int64_t part = section / tensor.axis_count;
    const std::int64_t logical_begin = section_begin + part * tensor.axis_index;
    if (by_rows) {
      add(local_begin * shape.columns, logical_begin * shape.columns, part * shape.columns);
    } else {
      for (std::int64_t row = 0; row < tensor.rows; ++row) {
        add(row * tensor.columns + local_begin, row * shape.columns + logical_begin, part);
      }
    }
    local_begin += part;
    section_begin += section;
  }
  return runs;
}

}  // namespace twinstep
