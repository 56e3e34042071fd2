#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/norm.h"
#include "exec/cuda/kernels/row_group.cuh"

namespace twinstep::cuda {
namespace {

// Added to the variance (or mean square), as GPT-2 and Llama have it.
constexpr double kNormEpsilon = 1e-5;

__device__ inline float InverseRoot(float x) { return 1.0f / sqrtf(x); }
__device__ inline double InverseRoot(double x) { return 1.0 / sqrt(x); }

// How rows are laid over threads: kRuns runs of kCount elements a thread, held in registers;
// thread t has the runs t, t + kThreads, ...
template <typename Element, int kRunElements, int kRunsOfThread, int kGroupThreads>
struct Layout {
  using T = Element;
  static constexpr int kCount = kRunElements, kRuns = kRunsOfThread, kThreads = kGroupThreads;
  static constexpr int kBlock = 256;
  static constexpr int kGroups = kBlock / kThreads;  // Of one row each, in a block.
};

// Blocks of the backward kernel that a multiprocessor's registers hold.
template <typename L, bool kRms>
constexpr int Resident() {
  if (L::kRuns == 2) return 2;
  const int blocks = L::kRuns == 1 ? 4 : 2;
  return kRms ? blocks : blocks - 1;  // LayerNorm also holds the bias's gradient.
}

template <typename L>
struct Row {
  using T = typename L::T;
  using C = Compute<T>;
  Run<T, L::kCount> runs[L::kRuns];

  __device__ void Clear() {
#pragma unroll
    for (int k = 0; k < L::kRuns; ++k) runs[k] = Run<T, L::kCount>::Zero();
  }

  // What was computed from the elements is computed again behind this, not held in registers.
  __device__ void Forget() {
    if constexpr (sizeof(runs[0].words[0]) == 16) {
#pragma unroll
      for (int k = 0; k < L::kRuns; ++k) {
#pragma unroll
        for (auto& word : runs[k].words) {
          asm volatile("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w));
        }
      }
    }
  }

  // Columns past the end are zeros.
  __device__ void Load(const T* from, int width, int thread) {
#pragma unroll
    for (int k = 0; k < L::kRuns; ++k) {
      const int column = (k * L::kThreads + thread) * L::kCount;
      runs[k] = column < width ? Run<T, L::kCount>::Load(from + column) : Run<T, L::kCount>::Zero();
    }
  }
};

// Calls function(k, j, column) for the elements of this thread's part of a row.
template <typename L, typename Function>
__device__ void ForEach(int width, int thread, Function&& function) {
#pragma unroll
  for (int k = 0; k < L::kRuns; ++k) {
    const int column = (k * L::kThreads + thread) * L::kCount;
    if (column >= width) continue;
#pragma unroll
    for (int j = 0; j < L::kCount; ++j) function(k, j, column + j);
  }
}

template <typename C>
struct Statistics {
  C mean, inverse;  // inverse = 1 / sqrt(variance + epsilon)
};

template <typename L, bool kRms>
__device__ Statistics<Compute<typename L::T>> RowStatistics(
    const Row<L>& x, int width, int thread, RowGroup<Compute<typename L::T>, L::kThreads>& group) {
  using C = Compute<typename L::T>;
  C mean = C{0};
  if constexpr (!kRms) {
    C sum = C{0};
    ForEach<L>(width, thread, [&](int k, int j, int) { sum += x.runs[k].Get(j); });
    mean = group.Sum(sum) / static_cast<C>(width);
  }
  C square = C{0};
  ForEach<L>(width, thread, [&](int k, int j, int) {
    const C centred = x.runs[k].Get(j) - mean;
    square += centred * centred;
  });
  square = group.Sum(square) / static_cast<C>(width);
  return {mean, InverseRoot(square + static_cast<C>(kNormEpsilon))};
}

template <typename T>
struct ForwardOperands {
  std::int64_t n;
  int h;
  const T *x, *gamma, *beta;
  T* y;
};

template <typename L, bool kRms>
__global__ void __launch_bounds__(L::kBlock)
    NormForwardKernel(const ForwardOperands<typename L::T> operands) {
  using T = typename L::T;
  using C = Compute<T>;
  using Group = RowGroup<C, L::kThreads>;
  __shared__ C shared[Group::kShared];
  Group group(shared);
  const int thread = Group::Thread();
  const int h = operands.h;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * L::kGroups +
                         static_cast<int>(threadIdx.x) / L::kThreads;
  if (i >= operands.n) return;  // Whole groups.
  Row<L> x;
  x.Load(operands.x + i * h, h, thread);
  const auto [mean, inverse] = RowStatistics<L, kRms>(x, h, thread, group);
#pragma unroll
  for (int k = 0; k < L::kRuns; ++k) {
    const int column = (k * L::kThreads + thread) * L::kCount;
    if (column >= h) continue;
    const auto gamma = Run<T, L::kCount>::Load(operands.gamma + column);
    Run<T, L::kCount> y;
    if constexpr (kRms) {
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) y.Set(j, x.runs[k].Get(j) * inverse * gamma.Get(j));
    } else {
      const auto beta = Run<T, L::kCount>::Load(operands.beta + column);
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) {
        y.Set(j, (x.runs[k].Get(j) - mean) * inverse * gamma.Get(j) + beta.Get(j));
      }
    }
    y.Store(operands.y + i * h + column);
  }
}

template <typename T>
struct BackwardOperands {
  std::int64_t n;
  int h;
  const T *dy, *x, *gamma, *residual;  // residual may be null.
  T* dx;
  Compute<T>* partial;  // [blocks][dgamma, dbeta unless RMS][h]
};

// Of a row of LayerNorm: mean and inverse, mean(g), and mean(g normed), as named below. RMSNorm's
// are one round of sums, since normed is a multiple of x: mean(g normed) = inverse mean(g x).
template <typename C>
struct RowMeans {
  Statistics<C> statistics;
  C g, g_normed;
};

template <typename L, bool kRms>
__device__ RowMeans<Compute<typename L::T>> BackwardMeans(
    const Row<L>& x, const Row<L>& dy, const Row<L>& gamma, int h, int thread,
    RowGroup<Compute<typename L::T>, L::kThreads>& group) {
  using C = Compute<typename L::T>;
  C sums[2] = {C{0}, C{0}};
  const C width = static_cast<C>(h);
  if constexpr (kRms) {
    // Columns past the end are zeros.
#pragma unroll
    for (int k = 0; k < L::kRuns; ++k) {
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) {
        const C value = x.runs[k].Get(j);
        sums[0] += value * value;
        sums[1] += dy.runs[k].Get(j) * gamma.runs[k].Get(j) * value;
      }
    }
    group.All(sums, AddTo{});
    const C inverse = InverseRoot(sums[0] / width + static_cast<C>(kNormEpsilon));
    return {{C{0}, inverse}, C{0}, sums[1] / width * inverse};
  } else {
    const auto [mean, inverse] = RowStatistics<L, kRms>(x, h, thread, group);
#pragma unroll
    for (int k = 0; k < L::kRuns; ++k) {
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) {
        const C g = dy.runs[k].Get(j) * gamma.runs[k].Get(j);
        sums[0] += g * ((x.runs[k].Get(j) - mean) * inverse);
        sums[1] += g;
      }
    }
    group.All(sums, AddTo{});
    return {{mean, inverse}, sums[1] / width, sums[0] / width};
  }
}

// With normed = (x - mean) inverse and g = dy gamma:
// dx = inverse (g - mean(g) - normed mean(g normed)) + residual; RMSNorm has no mean.
template <typename L, bool kRms>
__global__ void __launch_bounds__(L::kBlock, Resident<L, kRms>())
    NormBackwardKernel(const BackwardOperands<typename L::T> operands) {
  using T = typename L::T;
  using C = Compute<T>;
  using Group = RowGroup<C, L::kThreads>;
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  __shared__ C shared[Group::kShared];
  constexpr int kSums = kRms ? 1 : 2;
  Group group(shared);
  const int thread = Group::Thread();
  const int member = static_cast<int>(threadIdx.x) / L::kThreads;
  const int h = operands.h;
  C dgamma[L::kRuns][L::kCount], dbeta[L::kRuns][L::kCount];
#pragma unroll
  for (int k = 0; k < L::kRuns; ++k) {
#pragma unroll
    for (int j = 0; j < L::kCount; ++j) dgamma[k][j] = dbeta[k][j] = C{0};
  }
  // Of long rows registers do not hold it as well.
  constexpr bool kHoldsGamma = L::kRuns == 1;
  Row<L> gamma;
  if constexpr (kHoldsGamma) gamma.Load(operands.gamma, h, thread);
  // All loads of a row are in flight together, and while a row is summed, those of the next.
  Row<L> next_x, next_dy, next_residual;
  const auto load = [&](std::int64_t i) {
    if (i >= operands.n) return;
    next_x.Load(operands.x + i * h, h, thread);
    next_dy.Load(operands.dy + i * h, h, thread);
    if (operands.residual != nullptr) {
      next_residual.Load(operands.residual + i * h, h, thread);
    } else {
      next_residual.Clear();
    }
  };
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * L::kGroups;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * L::kGroups + member;
  load(begin);
  for (std::int64_t i = begin; i < operands.n; i += stride) {
    Row<L> x = next_x, dy = next_dy;
    const Row<L> residual = next_residual;
    load(i + stride);
    if constexpr (!kHoldsGamma) gamma.Load(operands.gamma, h, thread);
    const auto means = BackwardMeans<L, kRms>(x, dy, gamma, h, thread, group);
    x.Forget();
    dy.Forget();
    gamma.Forget();
    if constexpr (!kHoldsGamma) gamma.Load(operands.gamma, h, thread);
    const auto [mean, inverse] = means.statistics;
#pragma unroll
    for (int k = 0; k < L::kRuns; ++k) {
      const int column = (k * L::kThreads + thread) * L::kCount;
      if (column >= h) continue;
      Run<T, L::kCount> dx;
#pragma unroll
      for (int j = 0; j < L::kCount; ++j) {
        const C gradient = dy.runs[k].Get(j);
        const C normed = (x.runs[k].Get(j) - mean) * inverse;
        const C g = gradient * gamma.runs[k].Get(j);
        dgamma[k][j] += gradient * normed;
        dbeta[k][j] += gradient;
        dx.Set(j, inverse * (g - means.g - normed * means.g_normed) + residual.runs[k].Get(j));
      }
      dx.Store(operands.dx + i * h + column);
    }
  }
  C* partial = operands.partial + static_cast<std::int64_t>(blockIdx.x) * kSums * h;
  if constexpr (L::kGroups == 1) {
    ForEach<L>(h, thread, [&](int k, int j, int column) {
      partial[column] = dgamma[k][j];
      if constexpr (!kRms) partial[h + column] = dbeta[k][j];
    });
  } else {
    // The groups add their sums one after the other.
    C* totals = reinterpret_cast<C*>(dynamic_shared);
    for (int turn = 0; turn < L::kGroups; ++turn) {
      if (turn == member) {
        ForEach<L>(h, thread, [&](int k, int j, int column) {
          totals[column] = turn == 0 ? dgamma[k][j] : totals[column] + dgamma[k][j];
          if constexpr (!kRms) {
            totals[h + column] = turn == 0 ? dbeta[k][j] : totals[h + column] + dbeta[k][j];
          }
        });
      }
      __syncthreads();
    }
    for (int j = static_cast<int>(threadIdx.x); j < kSums * h; j += L::kBlock) {
      partial[j] = totals[j];
    }
  }
}

// Rows of any width, read from memory once more for each use: one block a row.
constexpr int kLongThreads = 256;

template <typename T, bool kRms>
__device__ Statistics<Compute<T>> LongRowStatistics(const T* x, std::int64_t h,
                                                    RowGroup<Compute<T>, kLongThreads>& group) {
  using C = Compute<T>;
  C mean = C{0};
  if constexpr (!kRms) {
    C sum = C{0};
    for (std::int64_t j = threadIdx.x; j < h; j += kLongThreads) sum += ToCompute(x[j]);
    mean = group.Sum(sum) / static_cast<C>(h);
  }
  C square = C{0};
  for (std::int64_t j = threadIdx.x; j < h; j += kLongThreads) {
    const C centred = ToCompute(x[j]) - mean;
    square += centred * centred;
  }
  square = group.Sum(square) / static_cast<C>(h);
  return {mean, InverseRoot(square + static_cast<C>(kNormEpsilon))};
}

template <typename T, bool kRms>
__global__ void __launch_bounds__(kLongThreads)
    LongNormForwardKernel(const std::int64_t h, const T* x, const T* gamma, const T* beta, T* y) {
  using C = Compute<T>;
  using Group = RowGroup<C, kLongThreads>;
  __shared__ C shared[Group::kShared];
  Group group(shared);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * h;
  const auto [mean, inverse] = LongRowStatistics<T, kRms>(x + row, h, group);
  for (std::int64_t j = threadIdx.x; j < h; j += kLongThreads) {
    C value = (ToCompute(x[row + j]) - mean) * inverse * ToCompute(gamma[j]);
    if constexpr (!kRms) value += ToCompute(beta[j]);
    Round(value, &y[row + j]);
  }
}

template <typename T, bool kRms>
__global__ void __launch_bounds__(kLongThreads)
    LongNormBackwardKernel(const std::int64_t h, const T* dy, const T* x, const T* gamma,
                           const T* residual, T* dx, Statistics<Compute<T>>* statistics) {
  using C = Compute<T>;
  using Group = RowGroup<C, kLongThreads>;
  __shared__ C shared[Group::kShared];
  Group group(shared);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * h;
  const Statistics<C> of_row = LongRowStatistics<T, kRms>(x + row, h, group);
  if (threadIdx.x == 0) statistics[blockIdx.x] = of_row;
  C sums[2] = {C{0}, C{0}};
  for (std::int64_t j = threadIdx.x; j < h; j += kLongThreads) {
    const C g = ToCompute(dy[row + j]) * ToCompute(gamma[j]);
    sums[0] += g * ((ToCompute(x[row + j]) - of_row.mean) * of_row.inverse);
    sums[1] += g;
  }
  group.All(sums, AddTo{});
  const C mean_product = sums[0] / static_cast<C>(h);
  const C mean_g = kRms ? C{0} : sums[1] / static_cast<C>(h);
  for (std::int64_t j = threadIdx.x; j < h; j += kLongThreads) {
    const C g = ToCompute(dy[row + j]) * ToCompute(gamma[j]);
    const C normed = (ToCompute(x[row + j]) - of_row.mean) * of_row.inverse;
    C value = of_row.inverse * (g - mean_g - normed * mean_product);
    if (residual != nullptr) value += ToCompute(residual[row + j]);
    Round(value, &dx[row + j]);
  }
}

template <typename T, bool kRms>
struct GammaBetaSums {
  static constexpr int kWidest = kWide<T>, kSums = kRms ? 1 : 2;
  const T *dy, *x;
  const Statistics<Compute<T>>* statistics;
  std::int64_t h;

  template <int kCount>
  __device__ void AddTo(std::int64_t row, std::int64_t column,
                        Compute<T> (&sums)[kSums][kCount]) const {
    const auto gradient = Run<T, kCount>::Load(dy + row * h + column);
    const auto value = Run<T, kCount>::Load(x + row * h + column);
    const auto [mean, inverse] = statistics[row];
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      sums[0][j] += gradient.Get(j) * ((value.Get(j) - mean) * inverse);
      if constexpr (!kRms) sums[1][j] += gradient.Get(j);
    }
  }
};

// Calls function.operator()<Layout>() with a layout that holds rows of h elements, or else returns
// long_rows(): for rows that are too long, that wide accesses do not fit, and in fp64, which is for
// checking. A warp may hold up to kWarpRuns runs a thread; beyond, a block of 256 threads holds the
// row.
template <typename T, int kWarpRuns, typename Function, typename LongRows>
cudaError_t WithLayout(std::int64_t h, bool aligned, Function&& function, LongRows&& long_rows) {
  constexpr int kCount = kWide<T>;
  if constexpr (!std::is_same_v<T, double>) {
    const std::int64_t runs = h / kCount;
    if (!aligned || h % kCount != 0) return long_rows();
    if (runs <= kWarp) return function.template operator()<Layout<T, kCount, 1, kWarp>>();
    if (runs <= 2 * kWarp) return function.template operator()<Layout<T, kCount, 2, kWarp>>();
    if constexpr (kWarpRuns == 8) {
      if (runs <= 4 * kWarp) return function.template operator()<Layout<T, kCount, 4, kWarp>>();
      if (runs <= 8 * kWarp) return function.template operator()<Layout<T, kCount, 8, kWarp>>();
    } else {
      if (runs <= 256) return function.template operator()<Layout<T, kCount, 1, 256>>();
    }
    if (runs <= 2 * 256) return function.template operator()<Layout<T, kCount, 2, 256>>();
    if (runs <= 4 * 256) return function.template operator()<Layout<T, kCount, 4, 256>>();
  }
  return long_rows();
}

template <typename T, bool kRms>
cudaError_t Forward(const KernelCall& call) {
  const std::int64_t n = call.shape.dims[0], h = call.shape.dims[1];
  if (n == 0 || h == 0) return cudaSuccess;
  const T* beta = kRms ? nullptr : Read<T>(call, 2);
  const ForwardOperands<T> operands{n,    static_cast<int>(h), Read<T>(call, 0), Read<T>(call, 1),
                                    beta, Write<T>(call, 0)};
  const bool aligned = Aligned(16, operands.x, operands.gamma, operands.beta, operands.y);
  return WithLayout<T, /*kWarpRuns=*/8>(
      h, aligned,
      [&]<typename L>() {
        const auto blocks = static_cast<unsigned>((n + L::kGroups - 1) / L::kGroups);
        NormForwardKernel<L, kRms><<<blocks, L::kBlock, 0, call.stream>>>(operands);
        return cudaGetLastError();
      },
      [&] {
        LongNormForwardKernel<T, kRms><<<static_cast<unsigned>(n), kLongThreads, 0, call.stream>>>(
            h, operands.x, operands.gamma, beta, operands.y);
        return cudaGetLastError();
      });
}

// Partial sums of gradients: one from each block. The kernel that holds rows in registers has as
// many blocks as an H200 holds at once.
constexpr std::int64_t kMultiprocessors = 132;
constexpr std::int64_t kMostPartials = 4 * kMultiprocessors;
static_assert(kMostPartials >= kMaxColumnChunks);

template <typename T, typename G, bool kRms>
cudaError_t Backward(const KernelCall& call) {
  using C = Compute<T>;
  constexpr std::int64_t kSums = kRms ? 1 : 2;
  const std::int64_t n = call.shape.dims[0], h = call.shape.dims[1];
  if (h == 0) return cudaSuccess;
  C* partial = reinterpret_cast<C*>(call.workspace);
  const T* residual = Has(call, kHasResidual) ? Read<T>(call, 3) : nullptr;
  const BackwardOperands<T> operands{
      n,        static_cast<int>(h), Read<T>(call, 0), Read<T>(call, 1), Read<T>(call, 2),
      residual, Write<T>(call, 0),   partial};
  const bool aligned = Aligned(16, operands.dy, operands.x, operands.gamma, residual, operands.dx);
  std::int64_t chunks = 0;
  const cudaError_t error = WithLayout<T, /*kWarpRuns=*/2>(
      h, aligned,
      [&]<typename L>() {
        chunks = std::clamp<std::int64_t>((n + L::kGroups - 1) / L::kGroups, 1,
                                          Resident<L, kRms>() * kMultiprocessors);
        const std::size_t shared =
            L::kGroups == 1 ? 0 : static_cast<std::size_t>(kSums * h) * sizeof(C);
        NormBackwardKernel<L, kRms>
            <<<static_cast<unsigned>(chunks), L::kBlock, shared, call.stream>>>(operands);
        return cudaGetLastError();
      },
      [&] {
        chunks = ColumnChunks(n);
        auto* statistics = reinterpret_cast<Statistics<C>*>(partial + kMostPartials * kSums * h);
        if (n > 0) {
          LongNormBackwardKernel<T, kRms>
              <<<static_cast<unsigned>(n), kLongThreads, 0, call.stream>>>(
                  h, operands.dy, operands.x, operands.gamma, residual, operands.dx, statistics);
        }
        const GammaBetaSums<T, kRms> body{operands.dy, operands.x, statistics, h};
        return LaunchColumnPartials(n, h, aligned, partial, call.stream, body);
      });
  if (error != cudaSuccess) return error;
  for (std::int64_t sum = 0; sum < kSums; ++sum) {
    G* gradient = Write<G>(call, static_cast<std::size_t>(1 + sum));
    const G* before = Has(call, kAccumulateGradient) ? gradient : nullptr;
    const cudaError_t totals =
        LaunchColumnTotals(partial + sum * h, chunks, kSums * h, h, before, gradient, call.stream);
    if (totals != cudaSuccess) return totals;
  }
  return cudaSuccess;
}

std::size_t ComputeBytes(Dtype dtype) {
  return dtype == Dtype::kFp64 ? sizeof(double) : sizeof(float);
}

}  // namespace

cudaError_t LaunchNormForward(const KernelCall& call) {
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return Has(call, kRmsNorm) ? Forward<T, true>(call) : Forward<T, false>(call);
  });
}

cudaError_t LaunchNormBackward(const KernelCall& call) {
  return WithElements(call.shape.dtype, call.gradient_dtype, [&](auto element, auto gradient) {
    using T = decltype(element);
    using G = decltype(gradient);
    return Has(call, kRmsNorm) ? Backward<T, G, true>(call) : Backward<T, G, false>(call);
  });
}

std::size_t NormBackwardWorkspaceBytes(const OpShape& shape) {
  const std::int64_t n = shape.dims[0], h = shape.dims[1];
  const std::int64_t sums = (shape.flags & kRmsNorm) != 0 ? 1 : 2;
  return static_cast<std::size_t>(kMostPartials * sums * h + 2 * n) * ComputeBytes(shape.dtype);
}

}  // namespace twinstep::cuda
