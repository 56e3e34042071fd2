// An operation and a type of numbers by its name.
#pragma once

#include <optional>
#include <string_view>

#include "sim/graph/op.h"

namespace twinstep {

// "gemm_forward": what Name(OpCode) says. Nothing for another name.
std::optional<OpCode> FindOp(std::string_view name);

// "bf16", likewise.
std::optional<Dtype> FindDtype(std::string_view name);

}  // namespace twinstep
