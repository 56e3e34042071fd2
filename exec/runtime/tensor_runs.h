// Which elements of a logical tensor (of the whole model) a rank's buffer holds, and where: tensor-
// parallel rows and columns, heads of Q, K and V, gate and up halves, ZeRO shards.
//
//   for (const TensorRun& run : TensorRuns(shape, tensor, place)) {
//     // `elements` at buffer byte run.offset are row run.row, columns from run.column on.
//   }
#pragma once

#include <cstdint>
#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/graph/symbolic_tensors.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// Elements that lie one after the other both in the buffer and in the logical tensor's row-major
// order (so a run may cover several rows).
struct TensorRun {
  std::int64_t offset = 0;   // Bytes into the buffer.
  std::int64_t element = 0;  // Row-major index into the logical tensor, padding rows included.
  std::int64_t elements = 0;
};

// Rows and columns of a logical tensor; `padded_rows` >= rows where the vocabulary is padded.
struct LogicalShape {
  std::int64_t rows = 0, columns = 0, padded_rows = 0;
};

LogicalShape LogicalShapeOf(const Model& model, const TensorInfo& tensor);

// `place`: the tensor's of PlaceTensors (bytes of its state's dtype, as the buffer's).
std::vector<TensorRun> TensorRuns(const Model& model, const TensorInfo& tensor,
                                  const TensorPlace& place, std::int64_t element_bytes);

}  // namespace twinstep
