#include <algorithm>

#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/exact_squares.h"
#include "exec/cuda/kernels/grad_norm.h"
#include "exec/cuda/kernels/row_group.cuh"

namespace twinstep::cuda {
namespace {

constexpr int kThreads = 128;
// Every thread has its own bins, so that nothing is added atomically: 64 KiB a block.
constexpr std::size_t kSharedBytes = std::size_t{kBins} * kThreads * sizeof(Limb);
constexpr std::int64_t kMostBlocks = 3 * 132;  // As many as an H200 holds at once.
constexpr int kRunsAhead = 4;

// A double's square as units of 2^-128, cut to whole units.
__device__ ExactLimbs SquareUnits(double x) {
  const double square = x * x;
  const auto bits = static_cast<Limb>(__double_as_longlong(square));
  const int exponent = static_cast<int>(bits >> 52);
  Limb mantissa = bits & ((Limb{1} << 52) - 1);
  if (exponent > 0) mantissa |= Limb{1} << 52;
  const int position = max(exponent, 1) - 1023 - 52 + 128;
  if (position < 0) {
    return {{position > -64 ? mantissa >> -position : 0, 0, 0, 0}};
  }
  if (position >= 256 - 52) return {{~Limb{0}, ~Limb{0}, ~Limb{0}, ~Limb{0}}};
  return Shifted(0, mantissa, position);
}

__device__ ExactLimbs ShuffleXor(const ExactLimbs& x, int distance) {
  ExactLimbs other;
#pragma unroll
  for (int i = 0; i < kExactLimbs; ++i) {
    other.limbs[i] = __shfl_xor_sync(0xffffffffu, x.limbs[i], distance);
  }
  return other;
}

// Over the first warp of a block.
__device__ ExactLimbs WarpTotal(ExactLimbs total) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    AddExact(total, ShuffleXor(total, distance));
  }
  return total;
}

// A thread's bins; bin b of thread t lies at [b][t], so that a warp's accesses never meet in a
// bank.
class Bins {
 public:
  __device__ explicit Bins(Limb* shared) : bins_(shared + threadIdx.x) {}

  __device__ void Clear() {
    for (int bin = 0; bin < kBins; ++bin) bins_[bin * kThreads] = 0;
  }
  __device__ void Add(float x) {
    const BinnedSquare square = BinSquare(__float_as_uint(x));
    bins_[square.bin * kThreads] += square.addend;
  }

  // The block's total, in the first warp's threads.
  __device__ static ExactLimbs Total(const Limb* shared) {
    __syncthreads();
    ExactLimbs total{};
    if (threadIdx.x >= kWarp) return total;
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kWarp) {
      Limb low = 0, high = 0;
      for (int i = 0; i < kThreads; ++i) {
        // Each thread starts elsewhere: all would meet in one bank otherwise.
        const Limb addend = shared[bin * kThreads + (i + static_cast<int>(threadIdx.x)) % kThreads];
        low += addend;
        high += low < addend ? 1 : 0;
      }
      AddExact(total, BinTotal(bin, high, low));
    }
    return WarpTotal(total);
  }

 private:
  Limb* bins_;
};

// Rounds of a block: what its threads may add before bins could overflow.
template <int kCount>
inline constexpr int kRoundsPerFlush = kSquaresPerBin / (kCount * kRunsAhead);

constexpr std::int64_t kRunsPerRound = std::int64_t{kThreads} * kRunsAhead;

// A thread's numbers of one round; zeros past the end.
template <typename G, int kCount>
struct Ahead {
  Run<G, kCount> runs[kRunsAhead];

  __device__ void Load(const G* gradient, std::int64_t round, std::int64_t end) {
#pragma unroll
    for (int k = 0; k < kRunsAhead; ++k) {
      const std::int64_t run = round * kRunsPerRound + k * kThreads + threadIdx.x;
      runs[k] = run < end ? Run<G, kCount>::Load(gradient + run * kCount) : Run<G, kCount>::Zero();
    }
  }
};

template <typename G, int kCount>
__global__ void __launch_bounds__(kThreads)
    SquaresKernel(const G* gradient, const std::int64_t elements, ExactLimbs* partial) {
  extern __shared__ Limb shared[];
  Bins bins(shared);
  ExactLimbs total{};
  const std::int64_t runs = elements / kCount;
  const std::int64_t rounds = (runs + kRunsPerRound - 1) / kRunsPerRound;
  std::int64_t round = blockIdx.x;
  Ahead<G, kCount> next;
  next.Load(gradient, round, runs);
  // At least once: the last elements of the first block.
  do {
    bins.Clear();
    for (int i = 0; i < kRoundsPerFlush<kCount> && round < rounds; ++i) {
      const Ahead<G, kCount> now = next;
      round += gridDim.x;
      next.Load(gradient, round, runs);  // In flight while this round's numbers are added.
#pragma unroll
      for (int k = 0; k < kRunsAhead; ++k) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) bins.Add(now.runs[k].Get(j));
      }
    }
    // One element a thread at most: within what a bin can hold beside whole rounds.
    if (round >= rounds && blockIdx.x == 0) {
      const std::int64_t rest = runs * kCount + threadIdx.x;
      if (rest < elements) bins.Add(ToCompute(gradient[rest]));
    }
    AddExact(total, Bins::Total(shared));
    __syncthreads();
  } while (round < rounds);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    WideSquaresKernel(const double* gradient, const std::int64_t elements, ExactLimbs* partial) {
  __shared__ ExactLimbs shared[kThreads / kWarp];
  ExactLimbs total{};
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < elements; i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    AddExact(total, SquareUnits(gradient[i]));
  }
  total = WarpTotal(total);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = total;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int warp = 1; warp < kThreads / kWarp; ++warp) AddExact(total, shared[warp]);
  partial[blockIdx.x] = total;
}

// accumulator = before (if any) + the partial sums.
__global__ void TotalKernel(const ExactLimbs* partial, const int blocks, const ExactLimbs* before,
                            ExactLimbs* accumulator) {
  ExactLimbs total{};
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kWarp) AddExact(total, partial[i]);
  total = WarpTotal(total);
  if (threadIdx.x > 0) return;
  if (before != nullptr) AddExact(total, *before);
  *accumulator = total;
}

__global__ void ClipCoefficientKernel(const ExactLimbs* accumulator, const DeviceStep* step,
                                      double* coefficient) {
  constexpr double kNormEpsilon = 1e-6;
  double square = 0, unit = 0x1p-128;
  bool overflowed = true;
  for (int i = 0; i < kExactLimbs; ++i) {
    const Limb limb = accumulator->limbs[i];
    overflowed = overflowed && limb == ~Limb{0};
    square += static_cast<double>(limb) * unit;
    unit *= 0x1p64;
  }
  if (overflowed) square = __longlong_as_double(0x7ff8000000000000LL);
  const double clip = step->clip_norm / (sqrt(square) + kNormEpsilon);
  // A NaN stays one.
  *coefficient = clip > 1 ? 1 : clip;
}

template <typename G>
cudaError_t AddSquares(const G* gradient, std::int64_t elements, unsigned blocks,
                       ExactLimbs* partial, cudaStream_t stream) {
  if constexpr (std::is_same_v<G, double>) {
    WideSquaresKernel<<<blocks, kThreads, 0, stream>>>(gradient, elements, partial);
    return cudaGetLastError();
  } else {
    const auto launch = [&](auto kernel) {
      const cudaError_t error = cudaFuncSetAttribute(
          kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kSharedBytes));
      if (error != cudaSuccess) return error;
      kernel<<<blocks, kThreads, kSharedBytes, stream>>>(gradient, elements, partial);
      return cudaGetLastError();
    };
    return Aligned(16, gradient) ? launch(SquaresKernel<G, kWide<G>>) : launch(SquaresKernel<G, 1>);
  }
}

}  // namespace

cudaError_t LaunchGradNorm(const KernelCall& call) {
  const OpShape& shape = call.shape;
  const std::int64_t elements = shape.dims[0] / shape.count;
  const std::int64_t first = shape.index * elements;
  const std::int64_t begin = std::clamp<std::int64_t>(shape.dims[1] - first, 0, elements);
  const std::int64_t end = std::clamp<std::int64_t>(shape.dims[2] - first, begin, elements);
  return WithElement(shape.dtype, [&](auto element) {
    using G = decltype(element);
    constexpr std::int64_t kPerRound = kRunsPerRound * kWide<G>;
    const std::int64_t blocks =
        std::clamp<std::int64_t>((end - begin + kPerRound - 1) / kPerRound, 1, kMostBlocks);
    auto* partial = reinterpret_cast<ExactLimbs*>(call.workspace);
    const cudaError_t error = AddSquares(Read<G>(call, 0) + begin, end - begin,
                                         static_cast<unsigned>(blocks), partial, call.stream);
    if (error != cudaSuccess) return error;
    const ExactLimbs* before = Has(call, kAccumulateGradient) ? Read<ExactLimbs>(call, 1) : nullptr;
    TotalKernel<<<1, kWarp, 0, call.stream>>>(partial, static_cast<int>(blocks), before,
                                              Write<ExactLimbs>(call, 0));
    return cudaGetLastError();
  });
}

std::size_t GradNormWorkspaceBytes(const OpShape& /*shape*/) {
  return kMostBlocks * sizeof(ExactLimbs);
}

cudaError_t LaunchClipCoefficient(const KernelCall& call) {
  ClipCoefficientKernel<<<1, 1, 0, call.stream>>>(Read<ExactLimbs>(call, 0), call.step,
                                                  Write<double>(call, 0));
  return cudaGetLastError();
}

}  // namespace twinstep::cuda
