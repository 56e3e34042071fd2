#include <algorithm>

#include "exec/cuda/bias.h"
#include "exec/cuda/kernels/element.cuh"

namespace twinstep::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kRowsOfPart = 256;  // Of dy that one block sums: part of the arithmetic.

std::int64_t Parts(std::int64_t n) { return (n + kRowsOfPart - 1) / kRowsOfPart; }

unsigned Blocks(std::int64_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

template <typename T>
__global__ void AddBiasKernel(std::int64_t elements, std::int64_t width, const T* bias, T* y) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < elements) Round(ToCompute(y[i]) + ToCompute(bias[i % width]), &y[i]);
}

// parts[p][j] = sum of dy's rows of part p; a thread a column.
template <typename T>
__global__ void SumPartsKernel(std::int64_t n, std::int64_t width, const T* dy, Compute<T>* parts) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= width) return;
  const std::int64_t begin = blockIdx.y * kRowsOfPart;
  const std::int64_t end = begin + kRowsOfPart < n ? begin + kRowsOfPart : n;
  Compute<T> sum = 0;
#pragma unroll 8
  for (std::int64_t i = begin; i < end; ++i) sum += ToCompute(dy[i * width + column]);
  parts[blockIdx.y * width + column] = sum;
}

template <typename C, typename G>
__global__ void SumOfPartsKernel(std::int64_t parts_count, std::int64_t width, const C* parts,
                                 const G* previous, G* db) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= width) return;
  C sum = 0;
  for (std::int64_t p = 0; p < parts_count; ++p) sum += parts[p * width + column];
  if (previous != nullptr) sum += ToCompute(previous[column]);
  Round(sum, &db[column]);
}

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
    AddBiasKernel<<<Blocks(n * width), kThreads, 0, stream>>>(
        n * width, width, static_cast<const T*>(bias), static_cast<T*>(y));
    return cudaGetLastError();
  });
}

std::size_t BiasGradientWorkspaceBytes(Dtype dtype, std::int64_t n, std::int64_t width) {
  const std::size_t element = dtype == Dtype::kFp64 ? sizeof(double) : sizeof(float);
  return static_cast<std::size_t>(Parts(n) * width) * element;
}

cudaError_t BiasGradient(Dtype dtype, Dtype gradient, std::int64_t n, std::int64_t width,
                         const void* dy, const void* previous, void* db, std::byte* workspace,
                         cudaStream_t stream) {
  return WithElements(dtype, gradient, [&](auto element, auto gradient_element) {
    using T = decltype(element);
    using G = decltype(gradient_element);
    auto* const parts = reinterpret_cast<Compute<T>*>(workspace);
    const dim3 grid(Blocks(width), static_cast<unsigned>(Parts(n)));
    SumPartsKernel<<<grid, kThreads, 0, stream>>>(n, width, static_cast<const T*>(dy), parts);
    SumOfPartsKernel<<<Blocks(width), kThreads, 0, stream>>>(
        Parts(n), width, parts, static_cast<const G*>(previous), static_cast<G*>(db));
    return cudaGetLastError();
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
