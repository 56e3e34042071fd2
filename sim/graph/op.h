// The operations of a task graph: what a task does, as cost model, symbolic interpreter and
// executor backends all read it. Operand order is part of the contract: a task's `reads` come
// first, in the order listed, then its `writes`; a buffer updated in place stands in both.
//
// Layout of activations is sequence-major, [tokens, features] with token = position * b + sample
// (b = micro-batch), so that gathering along the sequence concatenates. `n` is a task's local
// tokens: b * s divided by context (and, for sequence-parallel tensors, tensor) parallel size.
// Element type is OpShape::dtype unless noted; gradients of weights have TensorInfo's dtype.
// Statistics (log-sum-exp, the loss's maxima and sums) are fp32, or fp64 if OpShape::dtype is.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "sim/graph/ids.h"

namespace twinstep {

enum class OpCode : std::uint8_t {
  // --- GEMMs. y[n, out] = x[n, in] W[out, in]^T (+ bias). dims {n, out, in}.
  kGemmForward,  // reads x, W, [bias if kHasBias]            writes y
  kGemmDgrad,    // reads dy, W                               writes dx          dims {n, out, in}
  kGemmWgrad,    // reads x, dy, [dW, [db] if kAccumulateGradient]    writes dW, [db if kHasBias]

  // --- Normalisation over h. dims {n, h}. kRmsNorm flag: no beta, no mean.
  kNormForward,   // reads x, gamma, [beta]                    writes y
  kNormBackward,  // reads dy, x, gamma, [residual gradient if kHasResidual],
                  //       [dgamma, [dbeta] if kAccumulateGradient]    writes dx, dgamma, [dbeta]
                  // dx = norm gradient + residual gradient. Statistics are recomputed from x.

  // --- Attention. dims {b, heads, kv_heads, s_q, s_kv, head_dim}; heads and kv_heads are local
  // to the tensor-parallel rank, s_q local to the context-parallel rank, s_kv gathered.
  // index/count of the OpShape hold the context-parallel rank and size: query rows are the
  // pieces `index` and `2 count - 1 - index` of 2 count, and gathered keys lie in rank order.
  kSplitQkv,           // reads qkv[n, (heads + 2 kv) d]  writes q[n, heads d], kv[n, 2 kv d];
                       // rotates q and k by position if kRotary.
  kSplitQkvBackward,   // reads dq, dkv                   writes dqkv
  kAttentionForward,   // reads q, kv                     writes o[n, heads d], lse (statistics
                       // [n, heads])
  kAttentionBackward,  // reads do, q, kv, o, lse        writes dq, dkv, [workspace if
                       // kHasWorkspace]
  // Unfused attention materialises [b, heads, s_q, s_kv]:
  kAttentionScores,           // reads q, kv             writes scores (scaled, causal mask applied)
  kSoftmaxForward,            // reads scores            writes probs    dims as attention
  kAttentionContext,          // reads probs, kv         writes o
  kAttentionContextBackward,  // reads do, probs, kv     writes dprobs, dkv (the V half)
  kSoftmaxBackward,           // reads dprobs, probs     writes dscores
  kAttentionScoresBackward,   // reads dscores, q, kv, dkv  writes dq, dkv (the K half; V stays)

  // --- Elementwise. dims {n, f}. Dropout's index is its DropoutSite; masks are drawn by a counter
  // over (seed, step, site, layer, sample, position, feature), so that no plan changes them.
  kActivationForward,   // reads u                       writes y (GELU, or ReLU if kRelu)
  kActivationBackward,  // reads dy, u                   writes du
  kSiluForward,         // reads gate_up[n, 2 f]         writes silu[n, f] of the gate half
  kSiluBackward,        // reads dsilu, gate_up, dgate_up  writes dgate_up (the gate half)
  kMulForward,          // reads silu, gate_up           writes act[n, f] = silu * up
  kMulBackward,         // reads dact, silu, gate_up     writes dsilu, dgate_up (the up half)
  kAdd,                 // reads a, b, [bias of a]         writes y = a + b
  kDropoutAdd,  // reads z, residual, [bias of z]        writes y = dropout(z + bias) + residual,
                // mask
  kDropoutForward,   // reads x                       writes y, mask (one byte an element)
  kDropoutBackward,  // reads dy, mask                writes dx
  kCopyOnDevice,     // reads source                  writes destination; dims {bytes}

  // --- Embedding. dims {n, h, V_local, b, cp_index, cp_count}; index/count: vocabulary shard.
  // Positions are those of the context-parallel rank's two pieces; learned positions
  // (kHasPositions)
  // are added where index == 0, so that the shards' sum counts them once.
  kEmbeddingForward,   // reads tokens, E, [positions]    writes x (a partial sum if count > 1)
  kEmbeddingBackward,  // reads tokens, dx, [dE if kAccumulateGradient],
                       // [dpos if kAccumulatePositions]   writes dE, [dpos]

  // --- Loss. dims {n, V_local, global tokens of the batch, vocabulary without padding (0: all)};
  // index/count: vocabulary shard. Columns of padding have probability zero.
  kCrossEntropyStats,  // reads logits, labels            writes stats ([3, n]: max, sum, target)
  kCrossEntropyLoss,   // reads stats of all shards       writes loss (fp64 scalar: sum over local
                       // tokens / global tokens), global stats ([2, n]: max, sum)
  kCrossEntropyBackward,  // reads logits, labels, global stats  writes dlogits (in place of logits)

  // --- Optimizer. dims {elements of this rank's shard, the first of them that have no weight
  // decay}.
  kAdam,  // reads gradient, master, m, v, [clip coefficient if kHasClip]
          // writes master, m, v, parameter. With kMasterIsParameter the parameter is its own
          // master: reads gradient, m, v, parameter, [clip]; writes m, v, parameter.
  // Adds the squared norm of a chunk to an exact accumulator (four 64-bit limbs of one fixed-point
  // number, so that sums commute to the bit). dims {elements of the whole chunk, counted_begin,
  // counted_end}: only this range counts (tensors replicated over ranks count once); index/count:
  // ZeRO shard of the chunk that the gradient operand holds.
  kGradNorm,         // reads gradient, [accumulator if kAccumulateGradient]  writes accumulator
  kClipCoefficient,  // reads accumulator of the world    writes coefficient (fp64 scalar)
  kAccumulate,       // reads x, sum                      writes sum += x  (gradients)

  // --- Movement. dims {bytes}.
  kCopyH2D,  // reads host buffer    writes GPU buffer (first `bytes` of both)
  kCopyD2H,  // reads GPU buffer     writes host buffer
  kSend,     // reads x              (pairs with kRecv through the rendezvous)
  kRecv,     //                      writes x

  // --- Collectives over the rendezvous' group, in group order. dims {bytes}: the full tensor.
  kAllReduce,      // reads x        writes x                (sums in group order)
  kAllGather,      // reads shard    writes full             (concatenates in group order)
  kReduceScatter,  // reads full     writes shard            (sums in group order)
  // Every member sends its operand to the next member of the group (the last to the first): one
  // step of a ring, by which tensor-parallel GEMMs overlap. dims {bytes} of the operand.
  kRingShift,  // reads x            writes y (the previous member's x)
};
inline constexpr int kOpCodeCount = static_cast<int>(OpCode::kRingShift) + 1;

// Where in a layer a dropout stands.
enum class DropoutSite : std::uint16_t {
  kEmbedding,
  kAttentionProbabilities,
  kAttentionResidual,
  kMlpResidual
};

enum OpFlags : std::uint16_t {
  kHasBias = 1,
  kAccumulateGradient = 2,  // The written gradients are added to (and so stand among the reads).
  kRmsNorm = 4,
  kHasResidual = 8,
  kRotary = 16,
  kRelu = 32,
  kHasWorkspace = 64,
  kHasClip = 128,
  kMasterIsParameter = 256,
  kHasPositions = 512,
  kExactSum = 1024,             // An all-reduce of kGradNorm's accumulators.
  kHasDropout = 2048,           // Flash attention drops probabilities inside the kernel.
  kAccumulatePositions = 4096,  // As kAccumulateGradient, for the learned positions.
};

// Everything a cost model or a kernel needs to know besides operands. Interned: tasks hold a
// ShapeId, and a whole iteration has some hundreds of shapes.
struct OpShape {
  OpCode op = OpCode::kAdd;
  Dtype dtype = Dtype::kBf16;
  std::uint16_t flags = 0;
  std::uint16_t index = 0;  // Shard index and count, where the operation has them.
  std::uint16_t count = 1;
  std::array<std::int64_t, 6> dims{};

  bool operator==(const OpShape&) const = default;
};

struct OpShapeHash {
  std::size_t operator()(const OpShape& shape) const;
};

// The shape without what only tells a rank its place or an element its meaning: shapes with equal
// work shapes cost the same.
OpShape WorkShape(OpShape shape);

inline bool IsCopy(OpCode op) { return op == OpCode::kCopyH2D || op == OpCode::kCopyD2H; }

// Stable names: "gemm_forward", "attention_backward", ...
const char* Name(OpCode op);

// Multiply-add operations x 2 of the operation's matrix products as implemented: flash attention
// counts half of the causal square, unfused attention all of it; recomputation is the task's own
// business. 0 for anything else.
double Flops(const OpShape& shape);

// Bytes the operation must at least read and write in device memory, each operand once; gradients
// of weights are taken to be as wide as `dtype`.
double MemoryBytes(const OpShape& shape);

}  // namespace twinstep
