#pragma once

#include <cuda_runtime_api.h>

namespace twinstep {

// 0 where there is no driver.
inline int GpuCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// False where this machine has no GPU: tests skip.
inline bool HasGpu() { return GpuCount() > 0; }

}  // namespace twinstep
