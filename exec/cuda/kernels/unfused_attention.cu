#include <cmath>

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

// A matrix in memory, one for each (sample, head) of a batch.
template <typename T>
struct Matrix {
  T* base;
  std::int64_t row, column;  // Strides.
  std::int64_t sample, head;

  __device__ T* At(std::int64_t of_sample, std::int64_t of_head) const {
    return base + of_sample * sample + of_head * head;
  }
};

// result[rows, columns] = scale a[rows, depth] b[depth, columns] for each sample and head. Heads of
// the result are grouped: each sums over `group` heads of a and b (1, but for gradients of keys and
// values). b_group: heads of the result that share one of b.
template <typename T>
struct Product {
  std::int64_t heads, rows, columns, depth;
  std::int64_t group, b_group;
  Matrix<const T> a, b;
  Matrix<T> result;
  Compute<T> scale;
  bool causal;  // rows are queries, columns gathered keys: -infinity where a key is later.
  Positions positions;
};

constexpr int kTile = 64, kDepth = 16, kThreads = 256, kPerThread = 4;

// Tiles of 64 by 64, 16 deep; each thread computes 4 by 4.
template <typename T>
__global__ void __launch_bounds__(kThreads) ProductKernel(const Product<T> p) {
  using C = Compute<T>;
  __shared__ C tile_a[kDepth][kTile + 1], tile_b[kDepth][kTile + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t sample = blockIdx.z / p.heads, head = blockIdx.z % p.heads;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const int ty = thread / (kTile / kPerThread), tx = thread % (kTile / kPerThread);
  C sum[kPerThread][kPerThread] = {};
  for (std::int64_t member = 0; member < p.group; ++member) {
    const T* a = p.a.At(sample, head * p.group + member);
    const T* b = p.b.At(sample, (head * p.group + member) / p.b_group);
    for (std::int64_t depth = 0; depth < p.depth; depth += kDepth) {
      for (int i = thread; i < kTile * kDepth; i += kThreads) {
        // Consecutive threads read consecutive addresses, whichever way the matrix lies.
        const int x = p.a.column == 1 ? i / kDepth : i % kTile;
        const int k = p.a.column == 1 ? i % kDepth : i / kTile;
        const bool inside = first_row + x < p.rows && depth + k < p.depth;
        tile_a[k][x] =
            inside ? ToCompute(a[(first_row + x) * p.a.row + (depth + k) * p.a.column]) : C{0};
      }
      for (int i = thread; i < kTile * kDepth; i += kThreads) {
        const int y = p.b.column == 1 ? i % kTile : i / kDepth;
        const int k = p.b.column == 1 ? i / kTile : i % kDepth;
        const bool inside = first_column + y < p.columns && depth + k < p.depth;
        tile_b[k][y] =
            inside ? ToCompute(b[(depth + k) * p.b.row + (first_column + y) * p.b.column]) : C{0};
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        C left[kPerThread], right[kPerThread];
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
          left[i] = tile_a[k][ty * kPerThread + i];
          right[i] = tile_b[k][tx + i * (kTile / kPerThread)];
        }
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
          for (int j = 0; j < kPerThread; ++j) sum[i][j] += left[i] * right[j];
        }
      }
      __syncthreads();
    }
  }
  T* result = p.result.At(sample, head);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const std::int64_t row = first_row + ty * kPerThread + i;
    if (row >= p.rows) continue;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const std::int64_t column = first_column + tx + j * (kTile / kPerThread);
      if (column >= p.columns) continue;
      C value = p.scale * sum[i][j];
      if (p.causal && GatheredPosition(p.positions, column) > p.positions.Global(row)) {
        value = -static_cast<C>(__int_as_float(0x7f800000));
      }
      Round(value, &result[row * p.result.row + column * p.result.column]);
    }
  }
}

template <typename T>
cudaError_t LaunchProduct(std::int64_t samples, const Product<T>& p, cudaStream_t stream) {
  if (samples * p.heads * p.rows * p.columns == 0) return cudaSuccess;
  const auto tiles = [](std::int64_t size) {
    return static_cast<unsigned>((size + kTile - 1) / kTile);
  };
  // Grids are at most 65535 deep and high.
  if (samples * p.heads > 65535 || tiles(p.rows) > 65535) return cudaErrorInvalidValue;
  const dim3 grid(tiles(p.columns), tiles(p.rows), static_cast<unsigned>(samples * p.heads));
  ProductKernel<<<grid, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
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
