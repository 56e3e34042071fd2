// Token and position embeddings. Operands and dims: sim/graph/op.h.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

cudaError_t LaunchEmbeddingForward(const KernelCall& call);

// Sorts the tokens (stable), so that each row of the table is the sum of its tokens' gradients in
// their order: no atomic additions, and no row read or written twice.
cudaError_t LaunchEmbeddingBackward(const KernelCall& call);
std::size_t EmbeddingBackwardWorkspaceBytes(const OpShape& shape);

}  // namespace twinstep::cuda
