#include <cmath>
#include <utility>

#include "exec/cuda/kernels/batched_product.cuh"
#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/positions.h"
#include "exec/cuda/kernels/row_group.cuh"
#include "exec/cuda/kernels/unfused_attention.h"

namespace twinstep::cuda {
namespace {

// dims {b, heads, kv_heads, s_q, s_kv, head_dim}
struct Sizes {
  std::int64_t samples, heads, kv_heads, queries, keys, head_dim, group;
  Positions positions;  // Of the queries.

  std::int64_t q_stride() const { return samples * heads * head_dim; }
  std::int64_t kv_stride() const { return samples * 2 * kv_heads * head_dim; }
};

Sizes MakeSizes(const OpShape& shape) {
  const auto& d = shape.dims;
  return {d[0], d[1], d[2],        d[3],
          d[4], d[5], d[1] / d[2], MakePositions(d[4], shape.index, shape.count)};
}

// The operands' matrices of a (sample, query head) or (sample, key head).

template <typename T>
Matrix<T> Queries(const Sizes& s, T* base) {  // [queries, d]
  return {base, s.q_stride(), 1, s.heads * s.head_dim, s.head_dim};
}
template <typename T>
Matrix<T> Keys(const Sizes& s, T* base) {  // [keys, d]
  return {base, s.kv_stride(), 1, 2 * s.kv_heads * s.head_dim, s.head_dim};
}
template <typename T>
Matrix<T> KeyValues(const Sizes& s, T* base) {  // [keys, d]
  return Keys(s, base + s.kv_heads * s.head_dim);
}
template <typename T>
Matrix<T> Squares(const Sizes& s, T* base) {  // [queries, keys]
  return {base, s.keys, 1, s.heads * s.queries * s.keys, s.queries * s.keys};
}
template <typename T>
Matrix<T> Transposed(Matrix<T> matrix) {
  std::swap(matrix.row, matrix.column);
  return matrix;
}

template <typename T>
Compute<T> Scale(const Sizes& s) {
  return static_cast<Compute<T>>(1 / std::sqrt(static_cast<double>(s.head_dim)));
}

// One warp a row.
constexpr int kSoftmaxThreads = 256;
constexpr int kSoftmaxRows = kSoftmaxThreads / kWarp;

__device__ inline float Exp(float x) { return expf(x); }
__device__ inline double Exp(double x) { return exp(x); }

template <typename T, int kCount>
__global__ void __launch_bounds__(kSoftmaxThreads)
    SoftmaxKernel(const std::int64_t rows, const std::int64_t width, const T* scores, T* probs) {
  using C = Compute<T>;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kSoftmaxRows + threadIdx.x / kWarp;
  if (row >= rows) return;
  const std::int64_t first = threadIdx.x % kWarp * kCount;
  const T* x = scores + row * width;
  C max = -static_cast<C>(3.0e38f);
  for (std::int64_t j = first; j < width; j += kWarp * kCount) {
    const auto run = Run<T, kCount>::Load(x + j);
#pragma unroll
    for (int i = 0; i < kCount; ++i) max = LargerOf{}(max, run.Get(i));
  }
  max = WarpCombine(max, LargerOf{});
  C sum = C{0};
  for (std::int64_t j = first; j < width; j += kWarp * kCount) {
    const auto run = Run<T, kCount>::Load(x + j);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += Exp(run.Get(i) - max);
  }
  const C inverse = C{1} / WarpCombine(sum, AddTo{});
  for (std::int64_t j = first; j < width; j += kWarp * kCount) {
    const auto run = Run<T, kCount>::Load(x + j);
    Run<T, kCount> result;
#pragma unroll
    for (int i = 0; i < kCount; ++i) result.Set(i, Exp(run.Get(i) - max) * inverse);
    result.Store(probs + row * width + j);
  }
}

template <typename T, int kCount>
__global__ void __launch_bounds__(kSoftmaxThreads)
    SoftmaxGradientKernel(const std::int64_t rows, const std::int64_t width, const T* dprobs,
                          const T* probs, T* dscores) {
  using C = Compute<T>;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kSoftmaxRows + threadIdx.x / kWarp;
  if (row >= rows) return;
  const std::int64_t first = threadIdx.x % kWarp * kCount;
  const std::int64_t at = row * width;
  C mean = C{0};
  for (std::int64_t j = first; j < width; j += kWarp * kCount) {
    const auto gradient = Run<T, kCount>::Load(dprobs + at + j);
    const auto p = Run<T, kCount>::Load(probs + at + j);
#pragma unroll
    for (int i = 0; i < kCount; ++i) mean += gradient.Get(i) * p.Get(i);
  }
  mean = WarpCombine(mean, AddTo{});
  for (std::int64_t j = first; j < width; j += kWarp * kCount) {
    const auto gradient = Run<T, kCount>::Load(dprobs + at + j);
    const auto p = Run<T, kCount>::Load(probs + at + j);
    Run<T, kCount> result;
#pragma unroll
    for (int i = 0; i < kCount; ++i) result.Set(i, p.Get(i) * (gradient.Get(i) - mean));
    result.Store(dscores + at + j);
  }
}

unsigned SoftmaxBlocks(std::int64_t rows) {
  return static_cast<unsigned>((rows + kSoftmaxRows - 1) / kSoftmaxRows);
}

}  // namespace

cudaError_t LaunchAttentionScores(const KernelCall& call) {
  const Sizes s = MakeSizes(call.shape);
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return LaunchProduct<T>(s.samples,
                            {.heads = s.heads,
                             .rows = s.queries,
                             .columns = s.keys,
                             .depth = s.head_dim,
                             .group = 1,
                             .b_group = s.group,
                             .a = Queries(s, Read<T>(call, 0)),
                             .b = Transposed(Keys(s, Read<T>(call, 1))),
                             .result = Squares(s, Write<T>(call, 0)),
                             .scale = Scale<T>(s),
                             .causal = true,
                             .positions = s.positions},
                            call.stream);
  });
}

cudaError_t LaunchSoftmaxForward(const KernelCall& call) {
  const Sizes s = MakeSizes(call.shape);
  const std::int64_t rows = s.samples * s.heads * s.queries;
  if (rows == 0) return cudaSuccess;
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    const T* scores = Read<T>(call, 0);
    T* probs = Write<T>(call, 0);
    if (s.keys % kWide<T> == 0 && Aligned(16, scores, probs)) {
      SoftmaxKernel<T, kWide<T>>
          <<<SoftmaxBlocks(rows), kSoftmaxThreads, 0, call.stream>>>(rows, s.keys, scores, probs);
    } else {
      SoftmaxKernel<T, 1>
          <<<SoftmaxBlocks(rows), kSoftmaxThreads, 0, call.stream>>>(rows, s.keys, scores, probs);
    }
    return cudaGetLastError();
  });
}

cudaError_t LaunchAttentionContext(const KernelCall& call) {
  const Sizes s = MakeSizes(call.shape);
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return LaunchProduct<T>(s.samples,
                            {.heads = s.heads,
                             .rows = s.queries,
                             .columns = s.head_dim,
                             .depth = s.keys,
                             .group = 1,
                             .b_group = s.group,
                             .a = Squares(s, Read<T>(call, 0)),
                             .b = KeyValues(s, Read<T>(call, 1)),
                             .result = Queries(s, Write<T>(call, 0)),
                             .scale = 1,
                             .causal = false,
                             .positions = s.positions},
                            call.stream);
  });
}

cudaError_t LaunchAttentionContextBackward(const KernelCall& call) {
  const Sizes s = MakeSizes(call.shape);
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    const auto gradient = Queries(s, Read<T>(call, 0));
    const cudaError_t error = LaunchProduct<T>(s.samples,
                                               {.heads = s.heads,
                                                .rows = s.queries,
                                                .columns = s.keys,
                                                .depth = s.head_dim,
                                                .group = 1,
                                                .b_group = s.group,
                                                .a = gradient,
                                                .b = Transposed(KeyValues(s, Read<T>(call, 2))),
                                                .result = Squares(s, Write<T>(call, 0)),
                                                .scale = 1,
                                                .causal = false,
                                                .positions = s.positions},
                                               call.stream);
    if (error != cudaSuccess) return error;
    return LaunchProduct<T>(s.samples,
                            {.heads = s.kv_heads,
                             .rows = s.keys,
                             .columns = s.head_dim,
                             .depth = s.queries,
                             .group = s.group,
                             .b_group = 1,
                             .a = Transposed(Squares(s, Read<T>(call, 1))),
                             .b = gradient,
                             .result = KeyValues(s, Write<T>(call, 1)),
                             .scale = 1,
                             .causal = false,
                             .positions = s.positions},
                            call.stream);
  });
}

cudaError_t LaunchSoftmaxBackward(const KernelCall& call) {
  const Sizes s = MakeSizes(call.shape);
  const std::int64_t rows = s.samples * s.heads * s.queries;
  if (rows == 0) return cudaSuccess;
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    const T* dprobs = Read<T>(call, 0);
    const T* probs = Read<T>(call, 1);
    T* dscores = Write<T>(call, 0);
    if (s.keys % kWide<T> == 0 && Aligned(16, dprobs, probs, dscores)) {
      SoftmaxGradientKernel<T, kWide<T>><<<SoftmaxBlocks(rows), kSoftmaxThreads, 0, call.stream>>>(
          rows, s.keys, dprobs, probs, dscores);
    } else {
      SoftmaxGradientKernel<T, 1><<<SoftmaxBlocks(rows), kSoftmaxThreads, 0, call.stream>>>(
          rows, s.keys, dprobs, probs, dscores);
    }
    return cudaGetLastError();
  });
}

cudaError_t LaunchAttentionScoresBackward(const KernelCall& call) {
  const Sizes s = MakeSizes(call.shape);
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    const auto gradient = Squares(s, Read<T>(call, 0));
    const cudaError_t error = LaunchProduct<T>(s.samples,
                                               {.heads = s.heads,
                                                .rows = s.queries,
                                                .columns = s.head_dim,
                                                .depth = s.keys,
                                                .group = 1,
                                                .b_group = s.group,
                                                .a = gradient,
                                                .b = Keys(s, Read<T>(call, 2)),
                                                .result = Queries(s, Write<T>(call, 0)),
                                                .scale = Scale<T>(s),
                                                .causal = false,
                                                .positions = s.positions},
                                               call.stream);
    if (error != cudaSuccess) return error;
    return LaunchProduct<T>(s.samples,
                            {.heads = s.kv_heads,
                             .rows = s.keys,
                             .columns = s.head_dim,
                             .depth = s.queries,
                             .group = s.group,
                             .b_group = 1,
                             .a = Transposed(gradient),
                             .b = Queries(s, Read<T>(call, 1)),
                             .result = Keys(s, Write<T>(call, 1)),
                             .scale = Scale<T>(s),
                             .causal = false,
                             .positions = s.positions},
                            call.stream);
  });
}

}  // namespace twinstep::cuda
