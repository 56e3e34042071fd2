// LayerNorm and RMSNorm. Operands and dims: sim/graph/op.h.
#pragma once

#include <cstddef>

#include "exec/cpu/kernel.h"

namespace twinstep {

// Added to the variance (or mean square), as GPT-2 and Llama have it.
inline constexpr double kNormEpsilon = 1e-5;

void NormForward(const KernelCall& call);
void NormBackward(const KernelCall& call);

std::size_t NormScratchBytes(const OpShape& shape);

}  // namespace twinstep
