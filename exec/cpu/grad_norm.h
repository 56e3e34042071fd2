// Global gradient norm and clipping. Operands and dims: sim/graph/op.h.
#pragma once

#include "exec/cpu/kernel.h"

namespace twinstep {

// Adds squares to an ExactSum (exec/cpu/exact_sum.h), whose four limbs are the accumulator.
void GradNorm(const KernelCall& call);

// min(1, clip_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_; NaN if a gradient is not finite
// or the squared norm passes 2^128.
void ClipCoefficient(const KernelCall& call);

}  // namespace twinstep
