// Products of the matrices of many heads, whatever their strides: what unfused attention is made
// of. On the tensor cores where rows and types allow it, else on the multiprocessors' ordinary
// units.
#pragma once

#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>
#include <initializer_list>

#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/positions.h"

namespace twinstep::cuda {

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

namespace product_internal {

// What an element of the result becomes.
template <typename T>
__device__ void StoreResult(const Product<T>& p, T* result, std::int64_t row, std::int64_t column,
                            Compute<T> sum) {
  Compute<T> value = p.scale * sum;
  if (p.causal && GatheredPosition(p.positions, column) > p.positions.Global(row)) {
    value = -static_cast<Compute<T>>(__int_as_float(0x7f800000));
  }
  Round(value, &result[row * p.result.row + column * p.result.column]);
}

// Tiles of 128 by 64, 32 deep, of eight warps with 32 by 32 each.
namespace tensor {
constexpr int kThreads = 256, kRows = 128, kColumns = 64, kDepth = 32, kFragment = 16;
constexpr int kRun = 8;   // Elements of one access.
constexpr int kSkew = 8;  // Added to rows in shared memory, so that fragments' rows differ in bank.

// A tile of kOuter by kInner elements, the inner ones contiguous in memory: by way of registers, so
// that the next tile is on its way while the tensor cores work on this one.
template <typename T, int kOuter, int kInner>
struct Tile {
  static constexpr int kStride = kInner + kSkew;
  static constexpr int kElements = kOuter * kStride;
  static constexpr int kRuns = kOuter * kInner / (kRun * kThreads);
  Run<T, kRun> runs[kRuns];

  __device__ static int Outer(int k) {
    return (static_cast<int>(threadIdx.x) + k * kThreads) / (kInner / kRun);
  }
  __device__ static int Inner(int k) {
    return (static_cast<int>(threadIdx.x) + k * kThreads) % (kInner / kRun) * kRun;
  }

  // Zeros past the ends, of which `inner_end` is a multiple of kRun.
  __device__ void Load(const T* base, std::int64_t stride, std::int64_t outer, std::int64_t inner,
                       std::int64_t outer_end, std::int64_t inner_end) {
#pragma unroll
    for (int k = 0; k < kRuns; ++k) {
      const std::int64_t i = outer + Outer(k), j = inner + Inner(k);
      runs[k] = i < outer_end && j < inner_end ? Run<T, kRun>::Load(base + i * stride + j)
                                               : Run<T, kRun>::Zero();
    }
  }
  __device__ void Store(T* shared) const {
#pragma unroll
    for (int k = 0; k < kRuns; ++k) runs[k].Store(shared + Outer(k) * kStride + Inner(k));
  }
};

// kTransposedA: a's columns are contiguous in memory rather than its rows; likewise b's.
template <typename T, bool kTransposedA, bool kTransposedB>
__global__ void __launch_bounds__(kThreads) ProductKernel(const Product<T> p) {
  namespace wmma = nvcuda::wmma;
  using LayoutA = std::conditional_t<kTransposedA, wmma::col_major, wmma::row_major>;
  using LayoutB = std::conditional_t<kTransposedB, wmma::col_major, wmma::row_major>;
  using TileA = std::conditional_t<kTransposedA, Tile<T, kDepth, kRows>, Tile<T, kRows, kDepth>>;
  using TileB =
      std::conditional_t<kTransposedB, Tile<T, kColumns, kDepth>, Tile<T, kDepth, kColumns>>;
  constexpr int kResultStride = kColumns + 4;
  constexpr int kResultBytes = kRows * kResultStride * 4;
  static_assert((TileA::kElements + TileB::kElements) * static_cast<int>(sizeof(T)) <=
                kResultBytes);
  __shared__ __align__(128) unsigned char shared[kResultBytes];
  T* shared_a = reinterpret_cast<T*>(shared);
  T* shared_b = shared_a + TileA::kElements;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  const std::int64_t sample = blockIdx.z / p.heads, head = blockIdx.z % p.heads;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kRows;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kColumns;

  wmma::fragment<wmma::accumulator, kFragment, kFragment, kFragment, float> sums[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
  }

  // The depth of all members, one after the other.
  const std::int64_t steps_of_member = (p.depth + kDepth - 1) / kDepth;
  const std::int64_t steps = steps_of_member * p.group;
  TileA tile_a;
  TileB tile_b;
  const auto load = [&](std::int64_t step) {
    const std::int64_t member = step / steps_of_member;
    const std::int64_t depth = (step - member * steps_of_member) * kDepth;
    const T* a = p.a.At(sample, head * p.group + member);
    const T* b = p.b.At(sample, (head * p.group + member) / p.b_group);
    if constexpr (kTransposedA) {
      tile_a.Load(a, p.a.column, depth, first_row, p.depth, p.rows);
    } else {
      tile_a.Load(a, p.a.row, first_row, depth, p.rows, p.depth);
    }
    if constexpr (kTransposedB) {
      tile_b.Load(b, p.b.column, first_column, depth, p.columns, p.depth);
    } else {
      tile_b.Load(b, p.b.row, depth, first_column, p.depth, p.columns);
    }
  };
  if (steps > 0) load(0);
  for (std::int64_t step = 0; step < steps; ++step) {
    tile_a.Store(shared_a);
    tile_b.Store(shared_b);
    __syncthreads();
    if (step + 1 < steps) load(step + 1);
#pragma unroll
    for (int k = 0; k < kDepth; k += kFragment) {
      wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, T, LayoutA> a[2];
      wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, T, LayoutB> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = warp_row + i * kFragment, column = warp_column + i * kFragment;
        wmma::load_matrix_sync(a[i],
                               kTransposedA ? shared_a + k * TileA::kStride + row
                                            : shared_a + row * TileA::kStride + k,
                               TileA::kStride);
        wmma::load_matrix_sync(b[i],
                               kTransposedB ? shared_b + column * TileB::kStride + k
                                            : shared_b + k * TileB::kStride + column,
                               TileB::kStride);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
      }
    }
    __syncthreads();
  }

  float* shared_result = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      wmma::store_matrix_sync(
          shared_result + (warp_row + i * kFragment) * kResultStride + warp_column + j * kFragment,
          sums[i][j], kResultStride, wmma::mem_row_major);
    }
  }
  __syncthreads();
  T* result = p.result.At(sample, head);
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kColumns; i += kThreads) {
    const int row = i / kColumns, column = i % kColumns;
    if (first_row + row < p.rows && first_column + column < p.columns) {
      StoreResult(p, result, first_row + row, first_column + column,
                  shared_result[row * kResultStride + column]);
    }
  }
}

}  // namespace tensor

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
      StoreResult(p, result, row, column, sum[i][j]);
    }
  }
}

// Whether a matrix's runs of 8 elements can be accessed as one: `extent_along` of the contiguous
// direction, `other_stride` of the other.
template <typename T>
bool RunsAlign(const Matrix<const T>& x, std::int64_t extent_along, std::int64_t other_stride) {
  constexpr int kRun = tensor::kRun;
  return Aligned(16, x.base) && extent_along % kRun == 0 && other_stride % kRun == 0 &&
         x.sample % kRun == 0 && x.head % kRun == 0;
}

template <typename T>
cudaError_t LaunchTensor(const Product<T>& p, dim3 grid, cudaStream_t stream) {
  const bool transposed_a = p.a.column != 1, transposed_b = p.b.column != 1;
  if (transposed_a && transposed_b) return cudaErrorInvalidValue;
  if (transposed_a) {
    tensor::ProductKernel<T, true, false><<<grid, tensor::kThreads, 0, stream>>>(p);
  } else if (transposed_b) {
    tensor::ProductKernel<T, false, true><<<grid, tensor::kThreads, 0, stream>>>(p);
  } else {
    tensor::ProductKernel<T, false, false><<<grid, tensor::kThreads, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

// Grids are at most 65535 high and deep.
inline bool Grid(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                 std::int64_t tile_rows, std::int64_t tile_columns, dim3* grid) {
  const std::int64_t y = (rows + tile_rows - 1) / tile_rows;
  const std::int64_t x = (columns + tile_columns - 1) / tile_columns;
  *grid = dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(batch));
  return batch <= 65535 && y <= 65535;
}

}  // namespace product_internal

// One of each operand's two strides is 1. cudaErrorInvalidValue for more than 65535 heads in all
// samples.
template <typename T>
cudaError_t LaunchProduct(std::int64_t samples, const Product<T>& p, cudaStream_t stream) {
  namespace internal = product_internal;
  const std::int64_t batch = samples * p.heads;
  if (batch * p.rows * p.columns == 0) return cudaSuccess;
  dim3 grid;
  if constexpr (sizeof(T) == 2) {
    const bool transposed_a = p.a.column != 1, transposed_b = p.b.column != 1;
    if (!(transposed_a && transposed_b) &&
        internal::RunsAlign(p.a, transposed_a ? p.rows : p.depth,
                            transposed_a ? p.a.column : p.a.row) &&
        internal::RunsAlign(p.b, transposed_b ? p.depth : p.columns,
                            transposed_b ? p.b.column : p.b.row)) {
      if (!internal::Grid(batch, p.rows, p.columns, internal::tensor::kRows,
                          internal::tensor::kColumns, &grid)) {
        return cudaErrorInvalidValue;
      }
      return internal::LaunchTensor(p, grid, stream);
    }
  }
  if (!internal::Grid(batch, p.rows, p.columns, internal::kTile, internal::kTile, &grid)) {
    return cudaErrorInvalidValue;
  }
  internal::ProductKernel<<<grid, internal::kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace twinstep::cuda
