#include "exec/cuda/cudnn_attention.h"

#include <cmath>
#include <limits>
#include <utility>

namespace twinstep {
namespace {

using Dims = CudnnGraph::Dims;
using Tensor = CudnnGraph::Tensor;

constexpr std::int64_t kLengthMultiple = 128;
constexpr std::int64_t kHeadMultiple = 8;
constexpr std::int64_t kLargestHead = 128;

cudnnDataType_t TypeOf(Dtype dtype) {
  return dtype == Dtype::kFp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

// Dimensions b, heads, positions, features and the strides that they have in memory.
struct Layout {
  Layout(const OpShape& shape, const AttentionPiece& piece)
      : b(shape.dims[0]),
        heads(shape.dims[1]),
        kv_heads(shape.dims[2]),
        queries(piece.queries),
        keys(piece.keys),
        d(shape.dims[5]),
        type(TypeOf(shape.dtype)),
        scale(static_cast<float>(1 / std::sqrt(static_cast<double>(d)))) {}

  Dims q_dims() const { return {b, heads, queries, d}; }
  Dims q_strides() const { return Strides(heads * d); }
  // Keys, and behind them values, of a token.
  Dims v_dims() const { return {b, kv_heads, keys, d}; }
  Dims v_strides() const { return Strides(2 * kv_heads * d); }
  static Dims Transposed(Dims x) {
    std::swap(x[2], x[3]);
    return x;
  }
  Dims row_dims() const { return {b, heads, queries, 1}; }
  Dims row_strides() const { return {heads * queries, queries, 1, 1}; }

  Dims Strides(std::int64_t token) const { return {token, d, b * token, 1}; }

  std::int64_t b, heads, kv_heads, queries, keys, d;
  cudnnDataType_t type;
  float scale;
};

// The last query sees all keys. Row + keys - queries, in these two steps, is how cuDNN's fused
// kernels know the pattern.
Tensor Mask(CudnnGraph* graph, Tensor scores, const Layout& layout) {
  Tensor last_visible = graph->Index(scores, 2);
  if (layout.keys != layout.queries) {
    const Tensor keys = graph->Scalar(static_cast<std::int32_t>(layout.keys));
    const Tensor queries = graph->Scalar(static_cast<std::int32_t>(layout.queries));
    const Tensor sum =
        graph->Pointwise(CUDNN_POINTWISE_ADD, {last_visible, keys}, CUDNN_DATA_INT32);
    last_visible = graph->Pointwise(CUDNN_POINTWISE_SUB, {sum, queries}, CUDNN_DATA_INT32);
  }
  const Tensor visible = graph->Pointwise(
      CUDNN_POINTWISE_CMP_GE, {last_visible, graph->Index(scores, 3)}, CUDNN_DATA_BOOLEAN);
  const Tensor hidden = graph->Scalar(-std::numeric_limits<float>::infinity());
  return graph->Pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, hidden, visible});
}

// Pieces of consecutive positions.
std::int64_t PiecesOfRank(const OpShape& shape) { return shape.count == 1 ? 1 : 2; }

// a^T b, summed over the query heads that share a key head. The kernels pass each head's part on in
// the operands' type, and read nonsense if the graph has another one there.
Tensor KeyGradient(CudnnGraph* graph, Tensor a, Tensor b, const Layout& layout) {
  const Tensor transposed = graph->Transpose(a, layout.type);
  if (layout.heads == layout.kv_heads) return graph->Matmul(transposed, b);
  const Tensor of_heads = graph->Matmul(transposed, b, layout.type);
  return graph->Reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, layout.v_dims());
}

}  // namespace

const char* WhatCudnnMisses(const OpShape& shape) {
  static_assert(kLengthMultiple == 128 && kHeadMultiple == 8 && kLargestHead == 128);
  const std::int64_t s = shape.dims[3], d = shape.dims[5];
  if (shape.dtype != Dtype::kBf16 && shape.dtype != Dtype::kFp16) return "bf16 or fp16";
  if ((shape.flags & kHasDropout) != 0) return "attention without dropout";
  if (s * shape.count != shape.dims[4]) return "equal parts of the sequence";
  if (s % (PiecesOfRank(shape) * kLengthMultiple) != 0) {
    return shape.count == 1 ? "a sequence length that is a multiple of 128"
                            : "a sequence length that is a multiple of 256 on each rank";
  }
  if (d % kHeadMultiple != 0 || d > kLargestHead) {
    return "a head size that is a multiple of 8, at most 128";
  }
  return nullptr;
}

std::vector<AttentionPiece> AttentionPieces(const OpShape& shape) {
  const std::int64_t s = shape.dims[3];
  if (shape.count == 1) return {{.begin = 0, .queries = s, .keys = s}};
  const std::int64_t piece = s / PiecesOfRank(shape);
  return {{.begin = 0, .queries = piece, .keys = (shape.index + 1) * piece},
          {.begin = piece, .queries = piece, .keys = (2 * shape.count - shape.index) * piece}};
}

Result<CudnnPlan> PlanAttentionForward(const Cudnn* cudnn, std::int32_t device,
                                       const OpShape& shape, const AttentionPiece& piece) {
  const Layout layout(shape, piece);
  CudnnGraph graph(cudnn);
  const Tensor q = graph.Input(AttentionUid::kQ, layout.q_dims(), layout.q_strides(), layout.type);
  const Tensor k = graph.Input(AttentionUid::kK, Layout::Transposed(layout.v_dims()),
                               Layout::Transposed(layout.v_strides()), layout.type);
  const Tensor v = graph.Input(AttentionUid::kV, layout.v_dims(), layout.v_strides(), layout.type);
  const Tensor scaled =
      graph.Pointwise(CUDNN_POINTWISE_MUL, {graph.Matmul(q, k), graph.Scalar(layout.scale)});
  const Tensor scores = Mask(&graph, scaled, layout);
  const Tensor max = graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, layout.row_dims());
  const Tensor exponentials =
      graph.Pointwise(CUDNN_POINTWISE_EXP, {graph.Pointwise(CUDNN_POINTWISE_SUB, {scores, max})});
  const Tensor sum = graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, layout.row_dims());
  const Tensor statistics =
      graph.Pointwise(CUDNN_POINTWISE_ADD, {max, graph.Pointwise(CUDNN_POINTWISE_LOG, {sum})});
  graph.Output(statistics, AttentionUid::kStatistics, layout.row_strides(), CUDNN_DATA_FLOAT);
  const Tensor probabilities =
      graph.Pointwise(CUDNN_POINTWISE_DIV, {exponentials, sum}, layout.type);
  const Tensor o = graph.Matmul(probabilities, v);
  graph.Output(o, AttentionUid::kO, layout.q_strides(), layout.type);
  return std::move(graph).Plan(device);
}

Result<CudnnPlan> PlanAttentionBackward(const Cudnn* cudnn, std::int32_t device,
                                        const OpShape& shape, const AttentionPiece& piece,
                                        bool deterministic) {
  const Layout layout(shape, piece);
  CudnnGraph graph(cudnn);
  const Tensor q = graph.Input(AttentionUid::kQ, layout.q_dims(), layout.q_strides(), layout.type);
  const Tensor k = graph.Input(AttentionUid::kK, Layout::Transposed(layout.v_dims()),
                               Layout::Transposed(layout.v_strides()), layout.type);
  const Tensor v = graph.Input(AttentionUid::kV, Layout::Transposed(layout.v_dims()),
                               Layout::Transposed(layout.v_strides()), layout.type);
  const Tensor o = graph.Input(AttentionUid::kO, layout.q_dims(), layout.q_strides(), layout.type);
  const Tensor d_o =
      graph.Input(AttentionUid::kDo, layout.q_dims(), layout.q_strides(), layout.type);
  const Tensor statistics = graph.Input(AttentionUid::kStatistics, layout.row_dims(),
                                        layout.row_strides(), CUDNN_DATA_FLOAT);

  // Row sums of dO * O: what the softmax's backward subtracts.
  const Tensor products = graph.Pointwise(CUDNN_POINTWISE_MUL, {d_o, o});
  const Tensor sums = graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, products, layout.row_dims());
  const Tensor row_sums = graph.Pointwise(CUDNN_POINTWISE_MUL, {sums, graph.Scalar(1)});
  graph.Output(row_sums, AttentionUid::kRowSums, layout.row_strides(), CUDNN_DATA_FLOAT);

  // Probabilities again, and dV.
  const Tensor scale = graph.Scalar(layout.scale);
  const Tensor scores = graph.Pointwise(CUDNN_POINTWISE_MUL, {graph.Matmul(q, k), scale});
  const Tensor logs = graph.Pointwise(CUDNN_POINTWISE_SUB, {scores, statistics});
  const Tensor probabilities = graph.Pointwise(CUDNN_POINTWISE_EXP, {Mask(&graph, logs, layout)});
  const Tensor dv = KeyGradient(&graph, probabilities, d_o, layout);
  graph.Output(dv, AttentionUid::kDv, layout.v_strides(), layout.type);

  // Gradient of the scores, dK and dQ.
  const Tensor centred = graph.Pointwise(CUDNN_POINTWISE_SUB, {graph.Matmul(d_o, v), row_sums});
  const Tensor d_softmax = graph.Pointwise(CUDNN_POINTWISE_MUL, {centred, probabilities});
  const Tensor d_scores = graph.Pointwise(CUDNN_POINTWISE_MUL, {d_softmax, scale});
  const Tensor dk = KeyGradient(&graph, d_scores, q, layout);
  graph.Output(dk, AttentionUid::kDk, layout.v_strides(), layout.type);
  Tensor dq = graph.Matmul(d_scores, graph.Transpose(k, layout.type));
  if (!deterministic) {
    const Dims packed{layout.heads * layout.queries * layout.d, layout.queries * layout.d, layout.d,
                      1};
    graph.Output(dq, AttentionUid::kDqAccumulator, packed, CUDNN_DATA_FLOAT);
    dq = graph.Pointwise(CUDNN_POINTWISE_IDENTITY, {dq});
  }
  graph.Output(dq, AttentionUid::kDq, layout.q_strides(), layout.type);
  return std::move(graph).Plan(device);
}

}  // namespace twinstep
