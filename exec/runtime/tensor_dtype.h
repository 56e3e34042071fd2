// Element types by their names in safetensors files.
#pragma once

#include <optional>
#include <string>

#include "sim/graph/ids.h"

namespace twinstep {

// "BF16", "F32", ...
std::string SafetensorsDtype(Dtype dtype);
// None for a type that tensors of a training do not have.
std::optional<Dtype> DtypeOfSafetensors(const std::string& name);

}  // namespace twinstep
