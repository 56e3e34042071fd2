// Work of operations: floating-point operations and least device-memory traffic.
#include "sim/graph/op.h"

namespace twinstep {
namespace {

// dims {b, heads, kv_heads, s_q, s_kv, head_dim} as elements of the tensors they name.
struct AttentionSizes {
  explicit AttentionSizes(const OpShape& shape) {
    const auto at = [&](std::size_t i) { return static_cast<double>(shape.dims[i]); };
    tokens_x_heads = at(0) * at(3) * at(1);
    q = tokens_x_heads * at(5);
    k_of_queries = at(0) * at(3) * at(2) * at(5);
    k = at(0) * at(4) * at(2) * at(5);
    scores = tokens_x_heads * at(4);
    products = scores * at(5);
  }

  double tokens_x_heads;
  double q;             // Also o, dq and do.
  double k_of_queries;  // K (or V) of the rank's own tokens, before gathering.
  double k;             // K (or V) as attention sees it.
  double scores;        // The whole square.
  double products;      // Multiply-adds of one product over the whole square.
};

}  // namespace

double Flops(const OpShape& shape) {
  const auto dim = [&](std::size_t i) { return static_cast<double>(shape.dims[i]); };
  switch (shape.op) {
    case OpCode::kGemmForward:
    case OpCode::kGemmDgrad:
    case OpCode::kGemmWgrad:
      return 2 * dim(0) * dim(1) * dim(2);
    // Flash attention skips the masked half of the square: Q K^T and P V forward; backward
    // recomputes Q K^T and adds four products.
    case OpCode::kAttentionForward:
      return 2 * 2 * AttentionSizes(shape).products / 2;
    case OpCode::kAttentionBackward:
      return 5 * 2 * AttentionSizes(shape).products / 2;
    // Unfused attention multiplies the whole square and masks afterwards.
    case OpCode::kAttentionScores:
    case OpCode::kAttentionContext:
      return 2 * AttentionSizes(shape).products;
    case OpCode::kAttentionContextBackward:
    case OpCode::kAttentionScoresBackward:
      return 2 * 2 * AttentionSizes(shape).products;
    default:
      return 0;
  }
}

double MemoryBytes(const OpShape& shape) {
  const auto dim = [&](std::size_t i) { return static_cast<double>(shape.dims[i]); };
  const auto has = [&](OpFlags flag) { return (shape.flags & flag) != 0; };
  const auto element = static_cast<double>(DtypeBytes(shape.dtype));
  const double shards = shape.count > 0 ? shape.count : 1;
  // A gradient is written, and read before if it is added to.
  const double gradient_passes = has(kAccumulateGradient) ? 2 : 1;
  constexpr double kFp32 = 4, kInt32 = 4, kFp64 = 8;
  const double n_x_f = dim(0) * dim(1);

  switch (shape.op) {
    case OpCode::kGemmForward:
      return element * (dim(0) * dim(2) + dim(1) * dim(2) + n_x_f + (has(kHasBias) ? dim(1) : 0));
    case OpCode::kGemmDgrad:
      return element * (dim(0) * dim(2) + dim(1) * dim(2) + n_x_f);
    case OpCode::kGemmWgrad:
      return element * (dim(0) * dim(2) + n_x_f +
                        gradient_passes * (dim(1) * dim(2) + (has(kHasBias) ? dim(1) : 0)));

    case OpCode::kNormForward:
      return element * (2 * n_x_f + (has(kRmsNorm) ? 1 : 2) * dim(1));
    case OpCode::kNormBackward:
      return element * ((has(kHasResidual) ? 4 : 3) * n_x_f + dim(1) +
                        gradient_passes * (has(kRmsNorm) ? 1 : 2) * dim(1));

    case OpCode::kSplitQkv:
    case OpCode::kSplitQkvBackward: {
      const AttentionSizes size(shape);
      return element * 2 * (size.q + 2 * size.k_of_queries);
    }
    case OpCode::kAttentionForward: {
      const AttentionSizes size(shape);
      return element * (2 * size.q + 2 * size.k) + kFp32 * size.tokens_x_heads;
    }
    case OpCode::kAttentionBackward: {
      const AttentionSizes size(shape);
      // With a workspace dQ is summed in fp32, then read and rounded.
      return element * (4 * size.q + 4 * size.k) + kFp32 * size.tokens_x_heads +
             (has(kHasWorkspace) ? 2 * kFp32 * size.q : 0);
    }
    case OpCode::kAttentionScores:
    case OpCode::kAttentionContext: {
      const AttentionSizes size(shape);
      return element * (size.q + size.k + size.scores);
    }
    case OpCode::kSoftmaxForward:
      return element * 2 * AttentionSizes(shape).scores;
    case OpCode::kSoftmaxBackward:
      return element * 3 * AttentionSizes(shape).scores;
    case OpCode::kAttentionContextBackward: {  // do, probs, V in; dprobs, dV out.
      const AttentionSizes size(shape);
      return element * (size.q + 2 * size.scores + 2 * size.k);
    }
    case OpCode::kAttentionScoresBackward: {  // dscores, q, K in; dq, dK out.
      const AttentionSizes size(shape);
      return element * (size.scores + 2 * size.q + 2 * size.k);
    }

    case OpCode::kActivationForward:
    case OpCode::kSiluForward:
      return element * 2 * n_x_f;
    case OpCode::kActivationBackward:
    case OpCode::kSiluBackward:
    case OpCode::kMulForward:
      return element * 3 * n_x_f;
    case OpCode::kMulBackward:
      return element * 5 * n_x_f;
    case OpCode::kAdd:
      return element * (3 * n_x_f + (has(kHasBias) ? dim(1) : 0));
    case OpCode::kDropoutAdd:
      return element * (3 * n_x_f + (has(kHasBias) ? dim(1) : 0)) + n_x_f;
    case OpCode::kDropoutForward:
    case OpCode::kDropoutBackward:
      return element * 2 * n_x_f + n_x_f;
    case OpCode::kCopyOnDevice:
      return 2 * dim(0);

    // A vocabulary shard holds the rows of its share of the tokens.
    case OpCode::kEmbeddingForward:
      return kInt32 * dim(0) +
             element * n_x_f * (1 + 1 / shards + (has(kHasPositions) ? 1 / shards : 0));
    case OpCode::kEmbeddingBackward:
      // Accumulating touches the tokens' rows only; else the whole table is written first.
      return kInt32 * dim(0) +
             element * (n_x_f / shards * (has(kHasPositions) ? 2 : 1) +
                        (has(kAccumulateGradient) ? 2 * n_x_f / shards : dim(1) * dim(2)));

    case OpCode::kCrossEntropyStats:
      return element * n_x_f + (kInt32 + 3 * kFp32) * dim(0);
    case OpCode::kCrossEntropyLoss:
      return (3 * shards + 2) * kFp32 * dim(0) + kFp64;
    case OpCode::kCrossEntropyBackward:
      return element * 2 * n_x_f + (kInt32 + 2 * kFp32) * dim(0);

    case OpCode::kAdam:
      // Gradient, then master and two moments read and written, then the parameter.
      if (has(kMasterIsParameter)) return element * 7 * dim(0);
      return (2 * element + 6 * kFp32) * dim(0);
    case OpCode::kGradNorm:
      return element * dim(0) / shards;
    case OpCode::kClipCoefficient:
      return 5 * kFp64;
    case OpCode::kAccumulate:
      return element * 3 * dim(0);

    case OpCode::kCopyH2D:
    case OpCode::kCopyD2H:
    case OpCode::kSend:
    case OpCode::kRecv:
    case OpCode::kAllGather:
    case OpCode::kReduceScatter:
      return dim(0);
    case OpCode::kAllReduce:
    case OpCode::kRingShift:
      return 2 * dim(0);
  }
  return 0;
}

OpShape WorkShape(OpShape shape) {
  switch (shape.op) {
    case OpCode::kDropoutAdd:
    case OpCode::kDropoutForward:
    case OpCode::kDropoutBackward:
      return shape;  // The index is a place in the layer.
    case OpCode::kEmbeddingForward:
    case OpCode::kEmbeddingBackward:
      shape.dims[4] = 0;  // Context-parallel rank.
      break;
    case OpCode::kCrossEntropyStats:
    case OpCode::kCrossEntropyLoss:
    case OpCode::kCrossEntropyBackward:
      shape.dims[2] = 0;  // A divisor: the batch's tokens.
      shape.dims[3] = 0;  // Where the vocabulary's padding begins.
      break;
    case OpCode::kAdam:
      shape.dims[1] = 0;  // The part of this rank's shard that has no weight decay.
      break;
    case OpCode::kGradNorm:
      shape.dims[1] = shape.dims[2] = 0;  // The range that this rank counts.
      break;
    default:
      break;
  }
  shape.index = 0;
  return shape;
}

}  // namespace twinstep
