// Where a model's tensors lie in a Hugging Face checkpoint of its family: GPT-2's names for GPT
// (GPT2LMHeadModel, whose Conv1D weights are stored [in, out]), Llama's for LLAMA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// One tensor of the file: rows [row_begin, row_begin + rows) of a logical tensor.
struct HuggingFaceTensor {
  std::string name;  // Without the prefix ("transformer.", "model.") of whole language models.
  bool has_prefix = true;
  bool is_vector = false;   // Of `columns` numbers.
  bool transposed = false;  // Stored [columns, rows].
  std::uint16_t block = kNoTag;
  TensorKind kind = TensorKind::kTokenEmbedding;
  std::int64_t row_begin = 0, rows = 1, columns = 0;
};

// All tensors of the model, those of one logical tensor one after the other.
std::vector<HuggingFaceTensor> HuggingFaceTensors(const Model& model);

// The prefix that whole language models have.
std::string HuggingFacePrefix(const Model& model);

}  // namespace twinstep
