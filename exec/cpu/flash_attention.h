// Causal attention without materialised scores: tiles of fixed size, online softmax (Dao et al.,
// "FlashAttention", 2022). Operands and dims: sim/graph/op.h.
#pragma once

#include <cstddef>

#include "exec/cpu/kernel.h"

namespace twinstep {

void AttentionForward(const KernelCall& call);
void AttentionBackward(const KernelCall& call);

std::size_t FlashScratchBytes(const OpShape& shape);

}  // namespace twinstep
