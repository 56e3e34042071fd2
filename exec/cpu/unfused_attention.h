// Causal attention whose scores [b, heads, s_q, s_kv] are tensors, one operation a step. Operands
// and dims: sim/graph/op.h.
#pragma once

#include <cstddef>

#include "exec/cpu/kernel.h"

namespace twinstep {

void AttentionScores(const KernelCall& call);
void SoftmaxForward(const KernelCall& call);
void AttentionContext(const KernelCall& call);
void AttentionContextBackward(const KernelCall& call);  // Writes the V half of dkv.
void SoftmaxBackward(const KernelCall& call);
void AttentionScoresBackward(const KernelCall& call);  // Writes the K half of dkv.

std::size_t UnfusedScratchBytes(const OpShape& shape);

}  // namespace twinstep
