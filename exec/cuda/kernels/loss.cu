#include <algorithm>

#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/loss.h"
#include "exec/cuda/kernels/row_group.cuh"
#include "exec/cuda/kernels/rows.cuh"

namespace twinstep::cuda {
namespace {

__device__ inline float Exp(float x) { return expf(x); }
__device__ inline double Exp(double x) { return exp(x); }

// Of logits stored as T: for narrow ones e^x to a millionth, in few instructions; with more, a pass
// over bf16 logits would wait for arithmetic rather than for memory.
template <typename T>
__device__ Compute<T> ExpOf(Compute<T> x) {
  if constexpr (sizeof(T) == 2) {
    return __expf(x);
  } else {
    return Exp(x);
  }
}
template <typename C>
__device__ C Infinity() {
  return static_cast<C>(__int_as_float(0x7f800000));
}

// dims {n, V_local, global tokens, vocabulary without padding (0: none is padding)}
struct Sizes {
  std::int64_t n, width, first_column;
  std::int64_t columns;  // That are no padding.

  // The label's column of this shard, or -1.
  __device__ std::int64_t Column(std::int32_t label) const {
    const std::int64_t column = label - first_column;
    return column >= 0 && column < columns ? column : -1;
  }
};

Sizes MakeSizes(const OpShape& shape) {
  const std::int64_t width = shape.dims[1], first = shape.index * width;
  const std::int64_t columns =
      shape.dims[3] == 0 ? width : std::clamp<std::int64_t>(shape.dims[3] - first, 0, width);
  return {shape.dims[0], width, first, columns};
}

constexpr int kStatsThreads = 512;
constexpr int kRunsAhead = 4;

// A maximum and the sum of e^(x - maximum) over what a thread has seen.
template <typename C>
struct Partial {
  C max, sum;

  // Rescaled to a larger maximum.
  __device__ void Raise(C larger) {
    sum *= Exp(max - larger);
    max = larger;
  }
};

// One block a row, one pass over its logits.
template <typename T, int kCount>
__global__ void __launch_bounds__(kStatsThreads)
    StatsKernel(const Sizes size, const T* logits, const std::int32_t* labels, Compute<T>* stats) {
  using C = Compute<T>;
  using Group = RowGroup<C, kStatsThreads>;
  __shared__ C shared[Group::kShared];
  Group group(shared);
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * size.width;
  // A finite start: -infinity less itself has no meaning.
  Partial<C> partial{static_cast<C>(-3.0e38f), C{0}};
  const std::int64_t runs = size.columns / kCount;
  for (std::int64_t first = threadIdx.x; first < runs; first += kStatsThreads * kRunsAhead) {
    Run<T, kCount> ahead[kRunsAhead];
#pragma unroll
    for (int i = 0; i < kRunsAhead; ++i) {
      const std::int64_t run = first + i * kStatsThreads;
      if (run < runs) ahead[i] = Run<T, kCount>::Load(x + run * kCount);
    }
#pragma unroll
    for (int i = 0; i < kRunsAhead; ++i) {
      if (first + i * kStatsThreads < runs) {
        C max = ahead[i].Get(0);
#pragma unroll
        for (int j = 1; j < kCount; ++j) max = LargerOf{}(max, ahead[i].Get(j));
        if (max > partial.max) partial.Raise(max);
#pragma unroll
        for (int j = 0; j < kCount; ++j) partial.sum += ExpOf<T>(ahead[i].Get(j) - partial.max);
      }
    }
  }
  for (std::int64_t j = runs * kCount + threadIdx.x; j < size.columns; j += kStatsThreads) {
    const C value = ToCompute(x[j]);
    if (value > partial.max) partial.Raise(value);
    partial.sum += ExpOf<T>(value - partial.max);
  }
  const C max = group.Max(partial.max);
  partial.Raise(max);
  const C sum = group.Sum(partial.sum);
  if (threadIdx.x > 0) return;
  // A shard of padding alone has the maximum -infinity and the sum zero.
  stats[row] = size.columns == 0 ? -Infinity<C>() : max;
  stats[size.n + row] = sum;
  const std::int64_t column = size.Column(labels[row]);
  stats[2 * size.n + row] = column < 0 ? C{0} : ToCompute(x[column]);
}

constexpr int kLossThreads = 256;
constexpr int kLossBlocks = 64;

// Global stats, and partial sums of the loss: thread by thread, then block by block.
template <typename C>
__global__ void __launch_bounds__(kLossThreads)
    LossKernel(const std::int64_t n, const int shards, const C* stats, C* global, double* partial) {
  using Group = RowGroup<double, kLossThreads>;
  __shared__ double shared[Group::kShared];
  Group group(shared);
  double loss = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kLossThreads + threadIdx.x; i < n;
       i += kLossThreads * kLossBlocks) {
    C max = -Infinity<C>();
    for (int shard = 0; shard < shards; ++shard) max = LargerOf{}(max, stats[shard * 3 * n + i]);
    C sum = 0, target = 0;
    for (int shard = 0; shard < shards; ++shard) {
      const C* of_shard = stats + shard * 3 * n + i;
      sum += of_shard[n] * Exp(of_shard[0] - max);
      target += of_shard[2 * n];
    }
    global[i] = max;
    global[n + i] = sum;
    loss +=
        log(static_cast<double>(sum)) + (static_cast<double>(max) - static_cast<double>(target));
  }
  loss = group.Sum(loss);
  if (threadIdx.x == 0) partial[blockIdx.x] = loss;
}

__global__ void LossTotalKernel(const double* partial, const double tokens, double* loss) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < kLossBlocks; i += kWarp) sum += partial[i];
  sum = WarpCombine(sum, AddTo{});
  if (threadIdx.x == 0) *loss = sum / tokens;
}

template <typename T>
struct Backward {
  static constexpr int kWidest = kWide<T>;
  using C = Compute<T>;
  Sizes size;
  const T* logits;
  const std::int32_t* labels;
  const C* stats;  // [2, n]: maxima and sums of all shards.
  C weight;        // 1 / global tokens
  T* dlogits;

  template <int kCount>
  using Input = Run<T, kCount>;

  template <int kCount>
  __device__ Run<T, kCount> Load(std::int64_t row, std::int64_t column) const {
    return Run<T, kCount>::Load(logits + row * size.width + column);
  }

  template <int kCount>
  __device__ void Finish(std::int64_t row, std::int64_t column, const Run<T, kCount>& x) const {
    const C max = stats[row];
    const C scale = weight / stats[size.n + row];
    const std::int64_t label = size.Column(labels[row]);
    Run<T, kCount> dx;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      C value = ExpOf<T>(x.Get(j) - max) * scale;
      if (column + j == label) value -= weight;
      dx.Set(j, column + j < size.columns ? value : C{0});
    }
    dx.Store(dlogits + row * size.width + column);
  }
};

}  // namespace

cudaError_t LaunchCrossEntropyStats(const KernelCall& call) {
  const Sizes size = MakeSizes(call.shape);
  if (size.n == 0) return cudaSuccess;
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    const T* logits = Read<T>(call, 0);
    const auto blocks = static_cast<unsigned>(size.n);
    if (Aligned(16, logits) && size.width % kWide<T> == 0) {
      StatsKernel<T, kWide<T>><<<blocks, kStatsThreads, 0, call.stream>>>(
          size, logits, Read<std::int32_t>(call, 1), Write<Compute<T>>(call, 0));
    } else {
      StatsKernel<T, 1><<<blocks, kStatsThreads, 0, call.stream>>>(
          size, logits, Read<std::int32_t>(call, 1), Write<Compute<T>>(call, 0));
    }
    return cudaGetLastError();
  });
}

cudaError_t LaunchCrossEntropyLoss(const KernelCall& call) {
  const std::int64_t n = call.shape.dims[0];
  return WithElement(call.shape.dtype, [&](auto element) {
    using C = Compute<decltype(element)>;
    double* partial = reinterpret_cast<double*>(call.workspace);
    LossKernel<C><<<kLossBlocks, kLossThreads, 0, call.stream>>>(
        n, call.shape.count, Read<C>(call, 0), Write<C>(call, 1), partial);
    LossTotalKernel<<<1, kWarp, 0, call.stream>>>(partial, static_cast<double>(call.shape.dims[2]),
                                                  Write<double>(call, 0));
    return cudaGetLastError();
  });
}

std::size_t CrossEntropyLossWorkspaceBytes(const OpShape& /*shape*/) {
  return kLossBlocks * sizeof(double);
}

cudaError_t LaunchCrossEntropyBackward(const KernelCall& call) {
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    const Backward<T> body{MakeSizes(call.shape),
                           Read<T>(call, 0),
                           Read<std::int32_t>(call, 1),
                           Read<Compute<T>>(call, 2),
                           static_cast<Compute<T>>(1 / static_cast<double>(call.shape.dims[2])),
                           Write<T>(call, 0)};
    return LaunchRows(call.shape.dims[0], call.shape.dims[1],
                      Aligned(16, body.logits, body.dlogits), call.stream, body);
  });
}

}  // namespace twinstep::cuda
