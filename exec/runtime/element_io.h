// Numbers of any float dtype as bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/graph/ids.h"

namespace twinstep {

// Rounds to nearest even. `element` counts elements from `bytes`.
void StoreElement(Dtype dtype, double value, std::byte* bytes, std::int64_t element);
double LoadElement(Dtype dtype, const std::byte* bytes, std::int64_t element);

}  // namespace twinstep
