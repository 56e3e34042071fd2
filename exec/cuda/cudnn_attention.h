// Fused attention by cuDNN: causal, queries and keys of one whole sequence, heads that share keys.
//
// Operands lie as op.h says, [tokens, features] with token = position * b + sample; log-sum-exps,
// which only the backward reads, as cuDNN wants them: [b, heads, s].
#pragma once

#include <cstdint>

#include "exec/cuda/cudnn_graph.h"
#include "sim/graph/op.h"
#include "sim/result.h"

namespace twinstep {

// Unique ids of a plan's operands.
struct AttentionUid {
  static constexpr std::int64_t kQ = 1, kK = 2, kV = 3, kO = 4, kStatistics = 5;
  static constexpr std::int64_t kDo = 6, kDq = 7, kDk = 8, kDv = 9;
  static constexpr std::int64_t kRowSums = 10;        // Scratch: fp32 [b, heads, s].
  static constexpr std::int64_t kDqAccumulator = 11;  // Scratch: fp32, as large as q in fp32.
};

// Whether these kernels compute the operation (a forward or backward attention); others need
// another kernel: fp32, dropout, context parallelism, lengths that are no multiple of 128, head
// sizes that are no multiple of 8 or above 128.
bool CudnnAttends(const OpShape& shape);

Result<CudnnPlan> PlanAttentionForward(const Cudnn* cudnn, std::int32_t device,
                                       const OpShape& shape);
// Without an accumulator the same bits come out of every run, and the workspace grows with the
// square of the sequence (2 b heads s^2 bytes).
Result<CudnnPlan> PlanAttentionBackward(const Cudnn* cudnn, std::int32_t device,
                                        const OpShape& shape, bool deterministic);

}  // namespace twinstep
