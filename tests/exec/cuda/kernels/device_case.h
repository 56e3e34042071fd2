// An operator's case on a GPU: its operands in device memory between guards, and its launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/exec/cuda/kernels/operator_cases.h"

namespace twinstep {

// Ends the process with the error's name if a CUDA call fails.
void Check(cudaError_t error, const char* what);
bool HasGpu();

struct DeviceFree {
  void operator()(std::byte* memory) const;
};
using DeviceMemory = std::unique_ptr<std::byte, DeviceFree>;
DeviceMemory Allocate(std::size_t bytes);

class DeviceCase {
 public:
  // Buffers start `shift` elements past a multiple of 256 bytes.
  explicit DeviceCase(const OperatorCase& of, std::int64_t shift = 0);

  std::int64_t Bytes(std::size_t buffer) const;
  // Null bytes of an input; outputs that are no inputs, guards and workspace are poisoned.
  void Fill(std::size_t buffer, const std::byte* bytes);
  void Poison(std::size_t buffer);
  // The contents, without guards.
  std::vector<std::byte> Contents(std::size_t buffer) const;
  std::byte* data(std::size_t buffer) const;

  cudaError_t Launch(cudaStream_t stream) const;
  // Whether nothing around the buffers was written.
  bool GuardsHold() const;

 private:
  OperatorCase case_;
  std::int64_t shift_;
  std::vector<DeviceMemory> buffers_;
  DeviceMemory workspace_, step_;
  std::size_t workspace_bytes_;
};

}  // namespace twinstep
