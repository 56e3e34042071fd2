#pragma once

#include <cuda_runtime_api.h>

namespace twinstep {

// False where this machine has no GPU: tests skip.
inline bool HasGpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace twinstep
