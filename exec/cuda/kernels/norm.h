// LayerNorm and RMSNorm. Operands and dims: sim/graph/op.h.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

cudaError_t LaunchNormForward(const KernelCall& call);
cudaError_t LaunchNormBackward(const KernelCall& call);
std::size_t NormBackwardWorkspaceBytes(const OpShape& shape);

}  // namespace twinstep::cuda
