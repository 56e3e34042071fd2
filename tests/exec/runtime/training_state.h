// Small made-up training states for tests of files.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/runtime/checkpoint.h"
#include "exec/runtime/logical_tensors.h"
#include "model_zoo/model.pb.h"

namespace twinstep {

// Parameters of the model, numbered element by element, in `dtype`.
std::vector<LogicalTensor> NumberedParameters(const Model& model, Dtype dtype);

// A checkpoint with `elements` numbers of which every one is `step`.
Checkpoint ConstantCheckpoint(const Model& model, std::int64_t step, std::int64_t elements);

bool SameTensors(const std::vector<LogicalTensor>& a, const std::vector<LogicalTensor>& b);

}  // namespace twinstep
