// What a GPU is and what it runs by; needs no CUDA to be compiled.
//
//   Result<CudaDevice> device = DescribeCudaDevice(0);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// What plans for the GPU, and what is measured on it, must know of it.
struct CudaDevice {
  std::string name;
  std::int64_t memory_bytes = 0;
  int multiprocessors = 0;
  std::int64_t l2_bytes = 0;
};

// An Error (kNo): built without CUDA, no driver, no such GPU.
Result<CudaDevice> DescribeCudaDevice(int device);

// What numbers depend on besides the GPU: "driver 580.159.04", "CUDA 13.0", "cuBLASLt 13.0.2",
// "cuDNN 9.14.0"; of libraries those that can be loaded.
std::vector<std::string> CudaVersions();

}  // namespace twinstep
