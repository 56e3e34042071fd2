// The gradient's norm and the clip coefficient. Operands and dims: sim/graph/op.h.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

// The same accumulator as the CPU's, to the bit (exact_squares.h).
cudaError_t LaunchGradNorm(const KernelCall& call);
std::size_t GradNormWorkspaceBytes(const OpShape& shape);

cudaError_t LaunchClipCoefficient(const KernelCall& call);

}  // namespace twinstep::cuda
