// QKV's split into q and kv with rotary position embedding, and its way back. Operands and dims:
// sim/graph/op.h.
#pragma once

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

// Rotary embedding (Su et al. 2021) in the half-split layout of Llama: feature j of a head turns
// with feature j + head_dim / 2 by position * 10000^(-2 j / head_dim).
cudaError_t LaunchSplitQkv(const KernelCall& call);
cudaError_t LaunchSplitQkvBackward(const KernelCall& call);

}  // namespace twinstep::cuda
