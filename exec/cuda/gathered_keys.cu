#include <cstdint>

#include "exec/cuda/gathered_keys.h"
#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/positions.h"

namespace twinstep::cuda {
namespace {

constexpr int kThreads = 256;

std::int64_t PieceElements(const OpShape& shape) {
  const std::int64_t positions = shape.dims[4] / (2 * shape.count);
  return positions * shape.dims[0] * 2 * shape.dims[2] * shape.dims[5];
}

// One run of elements a thread; a row of blocks a piece.
template <typename T>
dim3 GridOf(std::int64_t piece_elements, std::int64_t pieces) {
  const std::int64_t runs = piece_elements / kWide<T>;
  return {static_cast<unsigned>((runs + kThreads - 1) / kThreads), static_cast<unsigned>(pieces)};
}

template <typename T>
using WideRun = Run<T, kWide<T>>;

// The thread's first element within a piece.
template <typename T>
__device__ std::int64_t ElementInPiece() {
  return (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWide<T>;
}

template <typename T>
__global__ void OrderKernel(std::int64_t piece_elements, std::int64_t count, const T* gathered,
                            T* by_position) {
  const std::int64_t i = ElementInPiece<T>(), piece = blockIdx.y;
  if (i >= piece_elements) return;
  WideRun<T>::Load(gathered + GatheredPiece(piece, count) * piece_elements + i)
      .Store(by_position + piece * piece_elements + i);
}

template <typename T>
__global__ void SumKernel(std::int64_t piece_elements, std::int64_t index, std::int64_t count,
                          const T* of_first, const T* of_second, T* gathered) {
  const std::int64_t i = ElementInPiece<T>(), piece = blockIdx.y;
  if (i >= piece_elements) return;
  const std::int64_t from = piece * piece_elements + i;
  WideRun<T> sum = WideRun<T>::Zero();
  // The second piece of queries sees all that the first one sees.
  if (piece < 2 * count - index) sum = WideRun<T>::Load(of_second + from);
  if (piece <= index) {
    const WideRun<T> more = WideRun<T>::Load(of_first + from);
#pragma unroll
    for (int k = 0; k < kWide<T>; ++k) sum.Set(k, sum.Get(k) + more.Get(k));
  }
  sum.Store(gathered + GatheredPiece(piece, count) * piece_elements + i);
}

template <typename Function>
cudaError_t WithHalf(Dtype dtype, Function&& launch) {
  if (dtype == Dtype::kBf16) return launch(__nv_bfloat16{});
  if (dtype == Dtype::kFp16) return launch(__half{});
  return cudaErrorInvalidValue;
}

}  // namespace

std::size_t KeyPieceBytes(const OpShape& shape) {
  return static_cast<std::size_t>(PieceElements(shape) * DtypeBytes(shape.dtype));
}

cudaError_t OrderKeys(const OpShape& shape, const std::byte* gathered, std::byte* by_position,
                      cudaStream_t stream) {
  return WithHalf(shape.dtype, [&](auto element) {
    using T = decltype(element);
    const std::int64_t elements = PieceElements(shape);
    OrderKernel<T><<<GridOf<T>(elements, 2 * shape.count - shape.index), kThreads, 0, stream>>>(
        elements, shape.count, reinterpret_cast<const T*>(gathered),
        reinterpret_cast<T*>(by_position));
    return cudaGetLastError();
  });
}

cudaError_t SumKeyGradients(const OpShape& shape, const std::byte* of_first,
                            const std::byte* of_second, std::byte* gathered, cudaStream_t stream) {
  return WithHalf(shape.dtype, [&](auto element) {
    using T = decltype(element);
    const std::int64_t elements = PieceElements(shape);
    SumKernel<T><<<GridOf<T>(elements, 2 * shape.count), kThreads, 0, stream>>>(
        elements, shape.index, shape.count, reinterpret_cast<const T*>(of_first),
        reinterpret_cast<const T*>(of_second), reinterpret_cast<T*>(gathered));
    return cudaGetLastError();
  });
}

}  // namespace twinstep::cuda
