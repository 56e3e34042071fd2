#include "exec/runtime/batch.h"

#include <cstddef>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {

Status LoadBatch(const TaskGraph& graph, std::int64_t sequence_length,
                 std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
                 Backend* backend) {
  std::vector<std::int32_t> local;
  for (const TensorInfo& tensor : graph.tensors) {
    if (tensor.kind != TensorKind::kTokens && tensor.kind != TensorKind::kLabels) continue;
    const std::span<const std::int32_t> source =
        tensor.kind == TensorKind::kTokens ? tokens : labels;
    const std::int64_t c = tensor.cp_count;
    const std::int64_t positions = sequence_length / c;
    const std::int64_t b = tensor.rows / positions;
    const std::int64_t first_sample = tensor.micro_batch * b;
    if (static_cast<std::int64_t>(source.size()) < (first_sample + b) * sequence_length) {
      return Error{.message =
                       StrCat("the batch has ", source.size(), " ", Name(tensor.kind),
                              ", the plan reads at least ", (first_sample + b) * sequence_length)};
    }
    local.clear();
    const std::int64_t piece = positions / (c == 1 ? 1 : 2);
    for (std::int64_t i = 0; i < positions; ++i) {
      const std::int64_t which = i < piece ? tensor.cp_index : 2 * c - 1 - tensor.cp_index;
      const std::int64_t position = which * piece + i % piece;
      for (std::int64_t k = 0; k < b; ++k) {
        local.push_back(
            source[static_cast<std::size_t>((first_sample + k) * sequence_length + position)]);
      }
    }
    backend->Write(tensor.buffer, tensor.slice.offset, std::as_bytes(std::span(local)));
  }
  return Unit{};
}

double ReadLoss(const TaskGraph& graph, const Backend& backend) {
  for (const TensorInfo& tensor : graph.tensors) {
    if (tensor.kind != TensorKind::kLoss) continue;
    std::vector<double> shares(static_cast<std::size_t>(tensor.rows));
    backend.Read(tensor.buffer, tensor.slice.offset, std::as_writable_bytes(std::span(shares)));
    double sum = 0;
    for (const double share : shares) sum += share;
    return sum;
  }
  return 0;
}

}  // namespace twinstep
