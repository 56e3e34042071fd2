// All operators of the graph but GEMMs and flash attention, on a GPU.
//
//   workspace = std::max over the stream's shapes of WorkspaceBytes(shape);
//   cudaError_t error = LaunchKernel({.shape = shape, .reads = reads, .writes = writes,
//                                     .place = place, .step = device_step,
//                                     .workspace = workspace, .stream = stream});
//
// Every kernel gives the same bits for the same input on one kind of GPU: sums are taken in an
// order that the shape alone decides, and nothing is added atomically. Nothing is allocated and
// nothing waits, so that launches can be captured into a CUDA graph.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

// True of the operators that LaunchKernel knows: every COMPUTE task but GEMMs and flash attention.
bool IsKernel(OpCode op);

// Device memory that the operator needs besides its operands, 0 for most.
std::size_t WorkspaceBytes(const OpShape& shape);

// The launch's error; cudaErrorInvalidValue for an operator, element type or size that has no
// kernel.
cudaError_t LaunchKernel(const KernelCall& call);

}  // namespace twinstep::cuda
