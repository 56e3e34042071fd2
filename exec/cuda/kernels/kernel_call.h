// One task of the graph on a GPU: pointers to its operands, in the order that sim/graph/op.h lists,
// and the stream to run it on. The arithmetic is that of exec/cpu/kernel.h: bf16 and fp16 are
// storage, read exactly into fp32, computed in fp32 and rounded once on writing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "exec/cuda/kernels/device_step.h"
#include "exec/runtime/step_values.h"
#include "sim/graph/op.h"

namespace twinstep::cuda {

struct KernelCall {
  OpShape shape;
  Dtype gradient_dtype = Dtype::kFp32;           // Of weight gradients.
  std::span<const std::byte* const> reads = {};  // Device memory.
  std::span<std::byte* const> writes = {};       // Device memory.
  TaskPlace place = {};
  // Device memory, filled before the iteration: its values change from step to step, and so cannot
  // be arguments of kernels that a captured graph launches again.
  const DeviceStep* step = nullptr;
  // At least WorkspaceBytes(shape) of device memory at a multiple of 256 bytes, for this
  // stream alone.
  std::byte* workspace = nullptr;
  cudaStream_t stream = nullptr;
};

inline bool Has(const KernelCall& call, OpFlags flag) { return (call.shape.flags & flag) != 0; }

template <typename T>
const T* Read(const KernelCall& call, std::size_t i) {
  return reinterpret_cast<const T*>(call.reads[i]);
}
template <typename T>
T* Write(const KernelCall& call, std::size_t i) {
  return reinterpret_cast<T*>(call.writes[i]);
}

}  // namespace twinstep::cuda
