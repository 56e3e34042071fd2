// Dropout by a counter-based generator: the same masks as exec/cpu/dropout.h draws, to the bit.
// Operands and dims: sim/graph/op.h.
#pragma once

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

cudaError_t LaunchDropoutForward(const KernelCall& call);
cudaError_t LaunchDropoutAdd(const KernelCall& call);
cudaError_t LaunchDropoutBackward(const KernelCall& call);

}  // namespace twinstep::cuda
