// Attention that materialises scores and probabilities [b, heads, s_q, s_kv]; any head size,
// grouped heads and context-parallel pieces. Operands and dims: sim/graph/op.h.
#pragma once

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

cudaError_t LaunchAttentionScores(const KernelCall& call);
cudaError_t LaunchSoftmaxForward(const KernelCall& call);
cudaError_t LaunchAttentionContext(const KernelCall& call);
cudaError_t LaunchAttentionContextBackward(const KernelCall& call);
cudaError_t LaunchSoftmaxBackward(const KernelCall& call);
cudaError_t LaunchAttentionScoresBackward(const KernelCall& call);

}  // namespace twinstep::cuda
