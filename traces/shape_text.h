// What an operation works on, as a person reads it.
#pragma once

#include <string>

#include "sim/graph/op.h"

namespace twinstep {

// Dimensions by the names that sim/graph/op.h gives them, then the element type:
// "n 4096 x out 8192 x in 2048, bf16". Empty for what only moves bytes.
std::string ShapeText(const OpShape& shape);

}  // namespace twinstep
