#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/embedding.h"
#include "exec/cuda/kernels/positions.h"
#include "exec/cuda/kernels/rows.cuh"

namespace twinstep::cuda {
namespace {

// dims {n, h, V_local, b, cp_index, cp_count}
struct Sizes {
  std::int64_t n, h, vocabulary, samples, first_token;
  Positions positions;

  // The row of this vocabulary shard that holds the token, or -1.
  __device__ std::int64_t Row(std::int32_t token) const {
    const std::int64_t row = token - first_token;
    return row >= 0 && row < vocabulary ? row : -1;
  }
};

Sizes MakeSizes(const OpShape& shape) {
  const auto& dims = shape.dims;
  const std::int64_t local_positions = dims[3] == 0 ? 0 : dims[0] / dims[3];
  return {dims[0],
          dims[1],
          dims[2],
          dims[3],
          shape.index * dims[2],
          MakePositions(local_positions * dims[5], dims[4], dims[5])};
}

template <typename T>
struct Forward {
  static constexpr int kWidest = kWide<T>;
  Sizes size;
  const std::int32_t* tokens;
  const T *table, *positions;  // positions: null if none are added here.
  T* x;

  template <int kCount>
  struct Input {
    Run<T, kCount> token, position;
  };

  template <int kCount>
  __device__ Input<kCount> Load(std::int64_t row, std::int64_t column) const {
    Input<kCount> input;
    const std::int64_t at = size.Row(tokens[row]);
    input.token =
        at < 0 ? Run<T, kCount>::Zero() : Run<T, kCount>::Load(table + at * size.h + column);
    if (positions != nullptr) {
      const std::int64_t position = size.positions.Global(row / size.samples);
      input.position = Run<T, kCount>::Load(positions + position * size.h + column);
    }
    return input;
  }

  template <int kCount>
  __device__ void Finish(std::int64_t row, std::int64_t column, const Input<kCount>& input) const {
    T* to = x + row * size.h + column;
    if (positions == nullptr) {
      input.token.Store(to);
      return;
    }
    Run<T, kCount> sum;
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum.Set(j, input.token.Get(j) + input.position.Get(j));
    sum.Store(to);
  }
};

constexpr int kThreads = 256;

unsigned Blocks(std::int64_t items) {
  return static_cast<unsigned>((items + kThreads - 1) / kThreads);
}

// Sort keys: the tokens' rows, tokens of other shards last.
__global__ void KeysKernel(const Sizes size, const std::int32_t* tokens, std::uint32_t* keys,
                           std::int32_t* values) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= size.n) return;
  const std::int64_t row = size.Row(tokens[i]);
  keys[i] = static_cast<std::uint32_t>(row < 0 ? size.vocabulary : row);
  values[i] = static_cast<std::int32_t>(i);
}

// begin[r] = the first sorted token of row r or a later one, for r in [0, vocabulary].
__global__ void BeginsKernel(const Sizes size, const std::uint32_t* keys, std::int32_t* begin) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row > size.vocabulary) return;
  std::int64_t low = 0, high = size.n;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (keys[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  begin[row] = static_cast<std::int32_t>(low);
}

constexpr int kGradientThreads = 128;
// Rows of dx that a thread reads before it adds the first.
constexpr int kRowsAhead = 8;

// gradient (+)= the sum of dx rows, kCount columns a thread. `row(i)` is the i-th addend's row.
template <typename T, typename G, int kCount, typename RowOf>
__device__ void SumRows(const T* dx, std::int64_t h, std::int64_t column, std::int64_t begin,
                        std::int64_t end, bool accumulates, G* gradient, RowOf row_of) {
  using C = Compute<T>;
  if (begin == end && accumulates) return;
  C sum[kCount];
#pragma unroll
  for (int j = 0; j < kCount; ++j) sum[j] = C{0};
  for (std::int64_t at = begin; at < end; at += kRowsAhead) {
    Run<T, kCount> ahead[kRowsAhead];
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      if (at + i < end) ahead[i] = Run<T, kCount>::Load(dx + row_of(at + i) * h + column);
    }
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      if (at + i < end) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) sum[j] += ahead[i].Get(j);
      }
    }
  }
  Run<G, kCount> result;
  if (accumulates) {
    const auto before = Run<G, kCount>::Load(gradient + column);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      result.Set(j, static_cast<Compute<G>>(before.Get(j) + sum[j]));
    }
  } else {
#pragma unroll
    for (int j = 0; j < kCount; ++j) result.Set(j, sum[j]);
  }
  result.Store(gradient + column);
}

template <typename T, typename G, int kCount>
__global__ void __launch_bounds__(kGradientThreads)
    TokenGradientKernel(const std::int64_t h, const T* dx, const std::int32_t* order,
                        const std::int32_t* begin, const bool accumulates, G* gradient) {
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.y) * kGradientThreads + threadIdx.x) * kCount;
  if (column >= h) return;
  const std::int64_t row = blockIdx.x;
  SumRows<T, G, kCount>(dx, h, column, begin[row], begin[row + 1], accumulates, gradient + row * h,
                        [order](std::int64_t i) { return std::int64_t{order[i]}; });
}

template <typename T, typename G, int kCount>
__global__ void __launch_bounds__(kGradientThreads)
    PositionGradientKernel(const Sizes size, const T* dx, const bool accumulates, G* gradient) {
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.y) * kGradientThreads + threadIdx.x) * kCount;
  if (column >= size.h) return;
  const std::int64_t local = blockIdx.x;
  SumRows<T, G, kCount>(dx, size.h, column, local * size.samples, (local + 1) * size.samples,
                        accumulates, gradient + size.positions.Global(local) * size.h,
                        [](std::int64_t i) { return i; });
}

// What sorting needs, one after the other in the workspace.
struct Workspace {
  explicit Workspace(std::int64_t n, std::int64_t vocabulary, std::byte* at) {
    const auto take = [&](std::int64_t elements) {
      std::byte* const taken = at + bytes;
      bytes += (static_cast<std::size_t>(elements) * 4 + 255) / 256 * 256;
      return taken;
    };
    keys = reinterpret_cast<std::uint32_t*>(take(n));
    sorted_keys = reinterpret_cast<std::uint32_t*>(take(n));
    values = reinterpret_cast<std::int32_t*>(take(n));
    order = reinterpret_cast<std::int32_t*>(take(n));
    begin = reinterpret_cast<std::int32_t*>(take(vocabulary + 1));
    sort = at + bytes;
    key_bits = 1;
    while ((std::int64_t{1} << key_bits) <= vocabulary) ++key_bits;
    sort_bytes = 0;
    error = cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, keys, sorted_keys, values, order,
                                            static_cast<int>(n), 0, key_bits);
    bytes += sort_bytes;
  }

  std::size_t bytes = 0, sort_bytes;
  std::uint32_t *keys, *sorted_keys;
  std::int32_t *values, *order, *begin;
  std::byte* sort;
  int key_bits;
  cudaError_t error;
};

// Calls function.operator()<kCount>() with the widest runs of the gradient that pointers and rows
// allow.
template <typename G, typename Function>
void WithCount(bool aligned, std::int64_t h, Function&& function) {
  if (aligned && h % kWide<G> == 0) {
    function.template operator()<kWide<G>>();
  } else {
    function.template operator()<1>();
  }
}

template <typename T, typename G>
cudaError_t Backward(const KernelCall& call) {
  const Sizes size = MakeSizes(call.shape);
  if (size.n >= std::int64_t{1} << 31 || size.vocabulary >= std::int64_t{1} << 31) {
    return cudaErrorInvalidValue;
  }
  const T* dx = Read<T>(call, 1);
  G* gradient = Write<G>(call, 0);
  const bool accumulates = Has(call, kAccumulateGradient);
  Workspace work(size.n, size.vocabulary, call.workspace);
  if (work.error != cudaSuccess) return work.error;
  if (size.n > 0) {
    KeysKernel<<<Blocks(size.n), kThreads, 0, call.stream>>>(size, Read<std::int32_t>(call, 0),
                                                             work.keys, work.values);
    const cudaError_t error = cub::DeviceRadixSort::SortPairs(
        work.sort, work.sort_bytes, work.keys, work.sorted_keys, work.values, work.order,
        static_cast<int>(size.n), 0, work.key_bits, call.stream);
    if (error != cudaSuccess) return error;
  }
  BeginsKernel<<<Blocks(size.vocabulary + 1), kThreads, 0, call.stream>>>(size, work.sorted_keys,
                                                                          work.begin);
  const auto grid = [&](std::int64_t rows, int count) {
    const std::int64_t tile = std::int64_t{kGradientThreads} * count;
    return dim3(static_cast<unsigned>(rows), static_cast<unsigned>((size.h + tile - 1) / tile));
  };
  if (size.vocabulary > 0) {
    WithCount<G>(Aligned(16, dx, gradient), size.h, [&]<int kCount>() {
      TokenGradientKernel<T, G, kCount>
          <<<grid(size.vocabulary, kCount), kGradientThreads, 0, call.stream>>>(
              size.h, dx, work.order, work.begin, accumulates, gradient);
    });
  }
  if (!Has(call, kHasPositions)) return cudaGetLastError();
  G* positions = Write<G>(call, 1);
  const bool accumulates_positions = Has(call, kAccumulatePositions);
  const std::int64_t local_positions = size.samples == 0 ? 0 : size.n / size.samples;
  if (!accumulates_positions) {
    // Positions of other context-parallel ranks, and beyond the sequence.
    const std::int64_t rows =
        std::max(call.place.position_rows, local_positions * call.shape.dims[5]);
    const cudaError_t error = cudaMemsetAsync(
        positions, 0, static_cast<std::size_t>(rows * size.h) * sizeof(G), call.stream);
    if (error != cudaSuccess) return error;
  }
  if (local_positions > 0) {
    WithCount<G>(Aligned(16, dx, positions), size.h, [&]<int kCount>() {
      PositionGradientKernel<T, G, kCount>
          <<<grid(local_positions, kCount), kGradientThreads, 0, call.stream>>>(
              size, dx, accumulates_positions, positions);
    });
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchEmbeddingForward(const KernelCall& call) {
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    const bool adds_positions = Has(call, kHasPositions) && call.shape.index == 0;
    const Forward<T> body{MakeSizes(call.shape), Read<std::int32_t>(call, 0), Read<T>(call, 1),
                          adds_positions ? Read<T>(call, 2) : nullptr, Write<T>(call, 0)};
    return LaunchRows(call.shape.dims[0], call.shape.dims[1],
                      Aligned(16, body.table, body.positions, body.x), call.stream, body);
  });
}

cudaError_t LaunchEmbeddingBackward(const KernelCall& call) {
  return WithElements(call.shape.dtype, call.gradient_dtype, [&](auto element, auto gradient) {
    return Backward<decltype(element), decltype(gradient)>(call);
  });
}

std::size_t EmbeddingBackwardWorkspaceBytes(const OpShape& shape) {
  return Workspace(shape.dims[0], shape.dims[2], nullptr).bytes;
}

}  // namespace twinstep::cuda
