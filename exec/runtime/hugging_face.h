// Weights under the names that Hugging Face's transformers uses, in safetensors files.
//
//   Result<std::vector<LogicalTensor>> weights =
//       ReadHuggingFace(model, "gpt2/", Dtype::kFp32);                  // Folder or file.
//   Status written = WriteHuggingFace(model, tensors, "export.safetensors");
//
// GPT is read as GPT-2: Conv1D weights are transposed. Llama's q, k and v become the rows of one
// tensor, gate and up likewise; its rotary embedding pairs a head's halves, as ours does. Tied
// models have no lm_head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exec/runtime/logical_tensors.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/ids.h"
#include "sim/result.h"

namespace twinstep {

// A file, or a folder with model.safetensors or model.safetensors.index.json (weights in several
// files). Numbers (F64, F32, F16, BF16) are rounded to `dtype`. An Error (kBadInput) names file and
// tensor where one is missing, misshapen, of another type, or unknown to the model (one layer more,
// say), and the field of the folder's config.json that asks for another arithmetic (rotary base,
// epsilon).
Result<std::vector<LogicalTensor>> ReadHuggingFace(const Model& model, const std::string& path,
                                                   Dtype dtype);

// Writes one file: parameters in their own type. Others among `tensors` are left out. An Error
// (kInternal) if one is missing.
Status WriteHuggingFace(const Model& model, std::span<const LogicalTensor> tensors,
                        const std::string& path);

}  // namespace twinstep
