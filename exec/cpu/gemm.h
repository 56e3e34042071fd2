// Products with weights: y = x W^T + b and its gradients. Operands and dims: sim/graph/op.h.
#pragma once

#include <cstddef>

#include "exec/cpu/kernel.h"

namespace twinstep {

void GemmForward(const KernelCall& call);
void GemmDgrad(const KernelCall& call);
void GemmWgrad(const KernelCall& call);

std::size_t GemmScratchBytes(const OpShape& shape);

}  // namespace twinstep
