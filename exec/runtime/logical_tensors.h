// The whole model's tensors from all ranks' pieces, and back: for checkpoints and comparisons. What
// comes out does not depend on the plan.
//
//   std::vector<LogicalTensor> tensors = GatherLogical(model, graph, backend).value();
//   Status restored = ScatterLogical(model, other_plans_graph, tensors, &other_backend);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/runtime/backend.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// Row-major; QKV rows in the order q, k, v with their heads in order, gated MLP rows gate, then up;
// the vocabulary without padding.
struct LogicalTensor {
  std::uint16_t block = kNoTag;  // Layer; kNoTag for what the model has once.
  TensorKind kind = TensorKind::kTokens;
  StateKind state = StateKind::kParameter;
  Dtype dtype = Dtype::kFp32;
  std::int64_t rows = 0, columns = 0;
  std::vector<std::byte> data;

  double At(std::int64_t element) const;
};

// "master of qkv_weight of block 3"
std::string Describe(const LogicalTensor& tensor);

// Parameters, masters and moments as they are after an iteration, sorted by block, kind and state.
// Pieces that several ranks hold must be equal to the bit, and nothing may be missing: else an
// Error (kInternal, rule "replicas" or "coverage") that names tensor and ranks.
Result<std::vector<LogicalTensor>> GatherLogical(const Model& model, const TaskGraph& graph,
                                                 const Backend& backend);

// Writes them to all ranks that hold a piece. An Error (kBadInput) names a tensor that the graph
// needs and that is missing or of another shape or dtype; nothing is written then.
Status ScatterLogical(const Model& model, const TaskGraph& graph,
                      std::span<const LogicalTensor> tensors, Backend* backend);

}  // namespace twinstep
