// Sums over the rows of [n, width], in two stages whose order the sizes alone decide: chunks of
// rows into partial sums, partial sums into the result.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/row_group.cuh"

namespace twinstep::cuda {

// Chunks of rows, each summed by one block per tile of columns.
inline constexpr std::int64_t kMaxColumnChunks = 264;  // Two a multiprocessor of an H200.

inline constexpr int kColumnRows = 8;  // Rows that a block works on at a time.

inline std::int64_t ColumnChunks(std::int64_t n) {
  return std::clamp<std::int64_t>(n / (4 * kColumnRows), 1, kMaxColumnChunks);
}

// partial[chunk][sum][column]; Body: kWidest, kSums, AddTo<kCount>(row, column, sums) adds the
// row's addends to C (&sums)[kSums][kCount].
template <int kCount, typename C, typename Body>
__global__ void __launch_bounds__(kWarp* kColumnRows)
    ColumnPartialsKernel(const Body body, const std::int64_t n, const std::int64_t width,
                         const std::int64_t rows_per_chunk, C* partial) {
  constexpr int kSums = Body::kSums;
  __shared__ C shared[kColumnRows][kWarp * kCount + 1];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int y = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) * (kWarp * kCount);
  const std::int64_t column = tile + lane * kCount;
  const std::int64_t chunk = blockIdx.y;
  const std::int64_t end = min(n, (chunk + 1) * rows_per_chunk);
  C sums[kSums][kCount];
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) sums[s][j] = C{0};
  }
  if (column < width) {
#pragma unroll 4
    for (std::int64_t row = chunk * rows_per_chunk + y; row < end; row += kColumnRows) {
      body.template AddTo<kCount>(row, column, sums);
    }
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    if (s > 0) __syncthreads();
#pragma unroll
    for (int j = 0; j < kCount; ++j) shared[y][lane * kCount + j] = sums[s][j];
    __syncthreads();
    for (int j = static_cast<int>(threadIdx.x); j < kWarp * kCount; j += kWarp * kColumnRows) {
      if (tile + j >= width) continue;
      C sum = shared[0][j];
#pragma unroll
      for (int r = 1; r < kColumnRows; ++r) sum += shared[r][j];
      partial[(chunk * kSums + s) * width + tile + j] = sum;
    }
  }
}

// out[column] = (accumulated ? accumulated[column] : 0) + sum over chunks of
// partial[chunk][column]; `stride`: from a chunk to the next.
template <typename C, typename G>
__global__ void __launch_bounds__(kWarp* kColumnRows)
    ColumnTotalsKernel(const C* partial, const std::int64_t chunks, const std::int64_t stride,
                       const std::int64_t width, const G* accumulated, G* out) {
  __shared__ C shared[kColumnRows][kWarp + 1];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int y = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane;
  C sum = C{0};
  if (column < width) {
#pragma unroll 16  // A thread has dozens of loads, and too few threads run to hide their latency.
    for (std::int64_t chunk = y; chunk < chunks; chunk += kColumnRows) {
      sum += partial[chunk * stride + column];
    }
  }
  shared[y][lane] = sum;
  __syncthreads();
  if (y > 0 || column >= width) return;
#pragma unroll
  for (int r = 1; r < kColumnRows; ++r) sum += shared[r][lane];
  if (accumulated != nullptr) sum = ToCompute(accumulated[column]) + sum;
  Round(sum, &out[column]);
}

template <typename C, typename G>
cudaError_t LaunchColumnTotals(const C* partial, std::int64_t chunks, std::int64_t stride,
                               std::int64_t width, const G* accumulated, G* out,
                               cudaStream_t stream) {
  if (width == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((width + kWarp - 1) / kWarp);
  ColumnTotalsKernel<<<blocks, kWarp * kColumnRows, 0, stream>>>(partial, chunks, stride, width,
                                                                 accumulated, out);
  return cudaGetLastError();
}

// Into partial[ColumnChunks(n)][Body::kSums][width].
template <typename C, typename Body>
cudaError_t LaunchColumnPartials(std::int64_t n, std::int64_t width, bool aligned, C* partial,
                                 cudaStream_t stream, const Body& body) {
  if (width == 0) return cudaSuccess;
  const std::int64_t chunks = ColumnChunks(n);
  const std::int64_t rows_per_chunk = (n + chunks - 1) / chunks;
  const auto launch = [&]<int kCount>() {
    const std::int64_t tiles = (width + kWarp * kCount - 1) / (kWarp * kCount);
    const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(chunks));
    ColumnPartialsKernel<kCount>
        <<<grid, kWarp * kColumnRows, 0, stream>>>(body, n, width, rows_per_chunk, partial);
    return cudaGetLastError();
  };
  if (aligned && width % Body::kWidest == 0) return launch.template operator()<Body::kWidest>();
  return launch.template operator()<1>();
}

}  // namespace twinstep::cuda
