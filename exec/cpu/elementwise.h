// Activations, gated MLP products, sums and copies. Operands and dims: sim/graph/op.h.
#pragma once

#include "exec/cpu/kernel.h"

namespace twinstep {

// GELU is the tanh approximation (Hendrycks and Gimpel 2016), as in GPT-2.
void ActivationForward(const KernelCall& call);
void ActivationBackward(const KernelCall& call);
void SiluForward(const KernelCall& call);
void SiluBackward(const KernelCall& call);
void MulForward(const KernelCall& call);
void MulBackward(const KernelCall& call);
void Add(const KernelCall& call);
void Accumulate(const KernelCall& call);
void CopyOnDevice(const KernelCall& call);

}  // namespace twinstep
