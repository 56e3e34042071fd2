// AdamW, one pass over gradient, master weights, moments and parameters. Operands and dims:
// sim/graph/op.h.
#pragma once

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

cudaError_t LaunchAdam(const KernelCall& call);

}  // namespace twinstep::cuda
