// AdamW (Loshchilov and Hutter, 2019): Adam with decoupled weight decay. Operands and dims:
// sim/graph/op.h.
//
// With t = step + 1 and g = clip coefficient times gradient:
//   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   w = (1 - lr decay) w - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + epsilon)
// The first dims[1] elements (norm weights and biases) have no decay.
#pragma once

#include "exec/cpu/kernel.h"

namespace twinstep {

void Adam(const KernelCall& call);

}  // namespace twinstep
