#include "tests/exec/runtime/training_state.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "exec/runtime/element_io.h"
#include "exec/runtime/hugging_face_names.h"

namespace twinstep {

std::vector<LogicalTensor> NumberedParameters(const Model& model, Dtype dtype) {
  std::map<std::pair<std::uint16_t, TensorKind>, LogicalTensor> tensors;
  for (const HuggingFaceTensor& slot : HuggingFaceTensors(model)) {
    LogicalTensor& tensor = tensors[{slot.block, slot.kind}];
    tensor.block = slot.block;
    tensor.kind = slot.kind;
    tensor.state = StateKind::kParameter;
    tensor.dtype = dtype;
    tensor.rows += slot.rows;
    tensor.columns = slot.columns;
  }
  std::vector<LogicalTensor> result;
  std::int64_t number = 0;
  for (auto& [key, tensor] : tensors) {
    const std::int64_t elements = tensor.rows * tensor.columns;
    tensor.data.resize(static_cast<std::size_t>(elements * DtypeBytes(dtype)));
    for (std::int64_t i = 0; i < elements; ++i) {
      StoreElement(dtype, static_cast<double>(number++), tensor.data.data(), i);
    }
    result.push_back(std::move(tensor));
  }
  return result;
}

Checkpoint ConstantCheckpoint(const Model& model, std::int64_t step, std::int64_t elements) {
  Checkpoint checkpoint{.step = step,
                        .seed = 0xfedcba9876543210,
                        .model = model,
                        .settings = {{"lr", "0.001"}, {"data", "README.md"}},
                        .tensors = {}};
  for (const StateKind state :
       {StateKind::kParameter, StateKind::kMaster, StateKind::kMoment1, StateKind::kMoment2}) {
    LogicalTensor tensor{.block = 3,
                         .kind = TensorKind::kUpWeight,
                         .state = state,
                         .dtype = state == StateKind::kParameter ? Dtype::kBf16 : Dtype::kFp32,
                         .rows = elements / 4,
                         .columns = 1,
                         .data = {}};
    tensor.data.resize(static_cast<std::size_t>(tensor.rows * DtypeBytes(tensor.dtype)));
    for (std::int64_t i = 0; i < tensor.rows; ++i) {
      StoreElement(tensor.dtype, static_cast<double>(step), tensor.data.data(), i);
    }
    checkpoint.tensors.push_back(std::move(tensor));
  }
  return checkpoint;
}

bool SameTensors(const std::vector<LogicalTensor>& a, const std::vector<LogicalTensor>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const LogicalTensor& x, const LogicalTensor& y) {
        return x.block == y.block && x.kind == y.kind && x.state == y.state && x.dtype == y.dtype &&
               x.rows == y.rows && x.columns == y.columns && x.data == y.data;
      });
}

}  // namespace twinstep
