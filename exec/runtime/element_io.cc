#include "exec/runtime/element_io.h"

#include <cstring>

#include "exec/cpu/element.h"

namespace twinstep {

void StoreElement(Dtype dtype, double value, std::byte* bytes, std::int64_t element) {
  WithElement(dtype, [&](auto stored) {
    Store(static_cast<Compute<decltype(stored)>>(value), &stored);
    std::memcpy(bytes + element * static_cast<std::int64_t>(sizeof(stored)), &stored,
                sizeof(stored));
  });
}

double LoadElement(Dtype dtype, const std::byte* bytes, std::int64_t element) {
  double value = 0;
  WithElement(dtype, [&](auto stored) {
    std::memcpy(&stored, bytes + element * static_cast<std::int64_t>(sizeof(stored)),
                sizeof(stored));
    value = Load(stored);
  });
  return value;
}

}  // namespace twinstep
