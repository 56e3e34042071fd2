// Cross-entropy over a vocabulary that may be sharded. Operands and dims: sim/graph/op.h.
//
// Each shard gives a token's largest logit, the sum of e^(logit - largest), and the label's logit
// (0 if another shard holds it). The loss combines the shards' statistics in shard order. Padding
// of the vocabulary (columns from dims[3] on) has probability zero.
#pragma once

#include "exec/cpu/kernel.h"

namespace twinstep {

void CrossEntropyStats(const KernelCall& call);
void CrossEntropyLoss(const KernelCall& call);  // Global stats: largest logit and sum.
void CrossEntropyBackward(const KernelCall& call);

}  // namespace twinstep
