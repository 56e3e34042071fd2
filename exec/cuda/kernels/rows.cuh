// Elementwise kernels: a body is run on every element of [rows, width], in runs of kWide elements
// where width and addresses allow it, else one by one.
//
//   struct Body {
//     static constexpr int kWidest = 8;
//     template <int kCount> struct Input { ... };
//     template <int kCount> __device__ Input<kCount> Load(int64 row, int64 column) const;
//     template <int kCount> __device__ void Finish(int64 row, int64 column, Input<kCount>&) const;
//   };
//   return LaunchRows(rows, width, /*aligned=*/true, stream, body);
//
// A thread loads several runs before it finishes the first, so that enough bytes are in flight to
// fill the memory's pipe.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "exec/cuda/kernels/divider.h"
#include "exec/cuda/kernels/element.cuh"

namespace twinstep::cuda {

inline constexpr int kRowsThreads = 256;

template <int kCount, int kRuns, typename Body>
__global__ void __launch_bounds__(kRowsThreads)
    RowsKernel(const Body body, const Divider runs_per_row, const std::int64_t first_column,
               const std::int64_t total) {
  using Input = typename Body::template Input<kCount>;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (kRowsThreads * kRuns) + threadIdx.x;
  Input inputs[kRuns];
  std::int64_t rows[kRuns], columns[kRuns];
#pragma unroll
  for (int i = 0; i < kRuns; ++i) {
    const std::int64_t run = first + i * kRowsThreads;
    rows[i] = runs_per_row.Divide(run);
    columns[i] = first_column + (run - rows[i] * runs_per_row.divisor()) * kCount;
    if (run < total) inputs[i] = body.template Load<kCount>(rows[i], columns[i]);
  }
#pragma unroll
  for (int i = 0; i < kRuns; ++i) {
    if (first + i * kRowsThreads < total) {
      body.template Finish<kCount>(rows[i], columns[i], inputs[i]);
    }
  }
}

namespace rows_internal {
template <int kCount, int kRuns, typename Body>
cudaError_t Launch(std::int64_t rows, std::int64_t first_column, std::int64_t width,
                   cudaStream_t stream, const Body& body) {
  const std::int64_t runs_per_row = width / kCount;
  const std::int64_t total = rows * runs_per_row;
  if (total == 0) return cudaSuccess;
  constexpr std::int64_t kPerBlock = kRowsThreads * kRuns;
  const std::int64_t blocks = (total + kPerBlock - 1) / kPerBlock;
  RowsKernel<kCount, kRuns><<<static_cast<unsigned>(blocks), kRowsThreads, 0, stream>>>(
      body, Divider(runs_per_row), first_column, total);
  return cudaGetLastError();
}
}  // namespace rows_internal

// `aligned`: every run of Body::kWidest elements that starts at a multiple of kWidest in a row of
// such a width may be accessed as one.
template <int kRuns = 2, typename Body>
cudaError_t LaunchRows(std::int64_t rows, std::int64_t width, bool aligned, cudaStream_t stream,
                       const Body& body) {
  if (rows == 0 || width == 0) return cudaSuccess;
  constexpr int kWidest = Body::kWidest;
  if (!aligned || (rows > 1 && width % kWidest != 0)) {
    return rows_internal::Launch<1, kRuns>(rows, 0, width, stream, body);
  }
  const std::int64_t wide = width / kWidest * kWidest;
  const cudaError_t error = rows_internal::Launch<kWidest, kRuns>(rows, 0, wide, stream, body);
  if (error != cudaSuccess || wide == width) return error;
  return rows_internal::Launch<1, kRuns>(rows, wide, width - wide, stream, body);
}

}  // namespace twinstep::cuda
