// Cross-entropy over shards of the vocabulary. Logits are read as they are stored; no wider copy of
// them is made. Operands and dims: sim/graph/op.h.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

cudaError_t LaunchCrossEntropyStats(const KernelCall& call);
cudaError_t LaunchCrossEntropyLoss(const KernelCall& call);
std::size_t CrossEntropyLossWorkspaceBytes(const OpShape& shape);
cudaError_t LaunchCrossEntropyBackward(const KernelCall& call);

}  // namespace twinstep::cuda
