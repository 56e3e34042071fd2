// Short access to a kernel call's operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cpu/kernel.h"

namespace twinstep {

inline bool Has(const KernelCall& call, OpFlags flag) { return (call.shape.flags & flag) != 0; }
inline std::int64_t Dim(const KernelCall& call, std::size_t i) { return call.shape.dims[i]; }

template <typename T>
const T* Read(const KernelCall& call, std::size_t i) {
  return reinterpret_cast<const T*>(call.reads[i]);
}
template <typename T>
T* Write(const KernelCall& call, std::size_t i) {
  return reinterpret_cast<T*>(call.writes[i]);
}

}  // namespace twinstep
