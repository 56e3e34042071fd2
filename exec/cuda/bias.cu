#include <algorithm>

#include "exec/cuda/bias.h"
#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/rows.cuh"

namespace twinstep::cuda {
namespace {

constexpr int kThreads = 256;
unsigned Blocks(std::int64_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

template <typename T>
struct AddBiasBody {
  static constexpr int kWidest = kWide<T>;
  std::int64_t width;
  const T* bias;
  T* y;

  template <int kCount>
  struct Input {
    Run<T, kCount> y, bias;
  };
  template <int kCount>
  __device__ Input<kCount> Load(std::int64_t row, std::int64_t column) const {
    return {Run<T, kCount>::Load(y + row * width + column), Run<T, kCount>::Load(bias + column)};
  }
  template <int kCount>
  __device__ void Finish(std::int64_t row, std::int64_t column, const Input<kCount>& x) const {
    Run<T, kCount> sum;
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum.Set(j, x.y.Get(j) + x.bias.Get(j));
    sum.Store(y + row * width + column);
  }
};

template <typename T>
struct RowSums {
  static constexpr int kWidest = kWide<T>, kSums = 1;
  const T* dy;
  std::int64_t width;

  template <int kCount>
  __device__ void AddTo(std::int64_t row, std::int64_t column,
                        Compute<T> (&sums)[1][kCount]) const {
    const auto gradient = Run<T, kCount>::Load(dy + row * width + column);
#pragma unroll
    for (int j = 0; j < kCount; ++j) sums[0][j] += gradient.Get(j);
  }
};

template <typename T>
__global__ void FillKernel(std::int64_t elements, T* x) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  auto bits = static_cast<std::uint32_t>(i) * 0x9e3779b9u + 0x85ebca6bu;
  bits = (bits ^ (bits >> 16)) * 0x7feb352du;
  bits = (bits ^ (bits >> 15)) * 0x846ca68bu;
  Round(static_cast<Compute<T>>(static_cast<std::int32_t>(bits ^ (bits >> 16))) *
            static_cast<Compute<T>>(0x1p-31),
        &x[i]);
}

}  // namespace

cudaError_t AddBias(Dtype dtype, std::int64_t n, std::int64_t width, const void* bias, void* y,
                    cudaStream_t stream) {
  return WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    const AddBiasBody<T> body{width, static_cast<const T*>(bias), static_cast<T*>(y)};
    return LaunchRows(n, width, Aligned(16, body.bias, body.y), stream, body);
  });
}

std::size_t BiasGradientWorkspaceBytes(Dtype dtype, std::int64_t n, std::int64_t width) {
  const std::size_t element = dtype == Dtype::kFp64 ? sizeof(double) : sizeof(float);
  return static_cast<std::size_t>(ColumnChunks(n) * width) * element;
}

cudaError_t BiasGradient(Dtype dtype, Dtype gradient, std::int64_t n, std::int64_t width,
                         const void* dy, const void* previous, void* db, std::byte* workspace,
                         cudaStream_t stream) {
  return WithElements(dtype, gradient, [&](auto element, auto gradient_element) {
    using T = decltype(element);
    using G = decltype(gradient_element);
    auto* const parts = reinterpret_cast<Compute<T>*>(workspace);
    const RowSums<T> body{static_cast<const T*>(dy), width};
    const cudaError_t error = LaunchColumnPartials(n, width, Aligned(16, dy), parts, stream, body);
    if (error != cudaSuccess) return error;
    return LaunchColumnTotals(parts, ColumnChunks(n), width, width, static_cast<const G*>(previous),
                              static_cast<G*>(db), stream);
  });
}

cudaError_t FillRandom(Dtype dtype, std::int64_t elements, void* x, cudaStream_t stream) {
  return WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    FillKernel<<<Blocks(elements), kThreads, 0, stream>>>(elements, static_cast<T*>(x));
    return cudaGetLastError();
  });
}

}  // namespace twinstep::cuda
