#pragma once

#include <cstddef>

#include "sim/graph/op.h"

namespace twinstep {

// What OperatorSample and OperatorMemorySample say alike of an operation: name, type, flags and the
// dimensions that it has.
template <typename Sample>
void SetOperation(const OpShape& shape, Sample* sample) {
  sample->set_op(Name(shape.op));
  sample->set_dtype(Name(shape.dtype));
  sample->set_flags(shape.flags);
  std::size_t dims = shape.dims.size();
  while (dims > 0 && shape.dims[dims - 1] == 0) --dims;
  for (std::size_t i = 0; i < dims; ++i) sample->add_dims(shape.dims[i]);
}

}  // namespace twinstep
