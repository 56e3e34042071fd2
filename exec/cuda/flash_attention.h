// Flash attention for what cuDNN does not do: fp32 and fp64, dropout, any head size up to 256 and
// any length. Written for exactness and determinism, not for speed: no tensor
// cores, one warp a query row (forward, dQ) or key row (dK and dV), nothing added atomically.
//
// Operands as op.h says; log-sum-exps as cudnn_attention.h has them.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

std::size_t FlashAttentionWorkspaceBytes(const OpShape& shape);

// cudaErrorInvalidValue for a head above 256.
cudaError_t FlashAttentionForward(const KernelCall& call);
cudaError_t FlashAttentionBackward(const KernelCall& call);

}  // namespace twinstep::cuda
