// Token and learned position embeddings. Operands and dims: sim/graph/op.h.
#pragma once

#include <cstddef>

#include "exec/cpu/kernel.h"

namespace twinstep {

void EmbeddingForward(const KernelCall& call);

// Rows of the tables that no token selects get a zero gradient, or keep theirs if gradients
// accumulate. The gradients of one row are summed in the order of its tokens, then added.
void EmbeddingBackward(const KernelCall& call);

std::size_t EmbeddingScratchBytes(const OpShape& shape);

}  // namespace twinstep
