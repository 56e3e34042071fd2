// Fused attention by cuDNN: causal, heads that share keys, whole sequences and what a
// context-parallel rank has of one.
//
// Queries, outputs and their gradients lie as op.h says, [tokens, features] with token = position *
// b + sample. A context-parallel rank's queries are two pieces of consecutive positions, each a
// plan of its own, which needs keys and values in the order of positions (gathered_keys.h).
// Log-sum-exps, which only the backward reads, lie piece after piece as cuDNN wants them: [b,
// heads, queries].
//
//   const auto pieces = AttentionPieces(shape);
//   Result<CudnnPlan> plan = PlanAttentionForward(cudnn, device, shape, pieces[0]);
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cuda/cudnn_graph.h"
#include "sim/graph/op.h"
#include "sim/result.h"

namespace twinstep {

// Unique ids of a plan's operands.
struct AttentionUid {
  static constexpr std::int64_t kQ = 1, kK = 2, kV = 3, kO = 4, kStatistics = 5;
  static constexpr std::int64_t kDo = 6, kDq = 7, kDk = 8, kDv = 9;
  static constexpr std::int64_t kRowSums = 10;        // Scratch: fp32 [b, heads, queries].
  static constexpr std::int64_t kDqAccumulator = 11;  // Scratch: fp32 [b, heads, queries, d].
};

// What these kernels need to compute the operation (a forward or backward attention), and it is
// not; others need another kernel: fp32, dropout, pieces whose length is no multiple of 128, head
// sizes that are no multiple of 8 or above 128. Null: they compute it.
const char* WhatCudnnMisses(const OpShape& shape);
inline bool CudnnAttends(const OpShape& shape) { return WhatCudnnMisses(shape) == nullptr; }

// Queries of consecutive positions, and how many keys the last of them sees: all before it, itself
// included.
struct AttentionPiece {
  std::int64_t begin = 0;  // The first query, in the rank's order.
  std::int64_t queries = 0;
  std::int64_t keys = 0;
};

// The whole sequence, or the two pieces of a context-parallel rank. Of a shape that cuDNN computes.
std::vector<AttentionPiece> AttentionPieces(const OpShape& shape);

// Pointers are those of the piece's first query; in the backward, dK and dV of the piece's keys
// are written, not added.
Result<CudnnPlan> PlanAttentionForward(const Cudnn* cudnn, std::int32_t device,
                                       const OpShape& shape, const AttentionPiece& piece);
// Without an accumulator the same bits come out of every run, and the workspace grows with queries
// times keys (2 b heads queries keys bytes): among context-parallel ranks the first's is the
// largest, whose last piece sees all keys.
Result<CudnnPlan> PlanAttentionBackward(const Cudnn* cudnn, std::int32_t device,
                                        const OpShape& shape, const AttentionPiece& piece,
                                        bool deterministic);

}  // namespace twinstep
