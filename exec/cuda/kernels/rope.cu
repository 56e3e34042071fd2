#include <algorithm>

#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/positions.h"
#include "exec/cuda/kernels/rope.h"

namespace twinstep::cuda {
namespace {

constexpr double kRotaryBase = 10000;
constexpr int kThreads = 256;

// A block takes all samples of `positions_per_block` consecutive local positions, so that it needs
// the angles of only these.
struct Sizes {
  std::int64_t positions, samples;
  int head_dim, half;  // half: features that turn with a partner; 0 without rotation.
  int heads, kv_heads;
  int positions_per_block;
  Positions global;
};

// Cosine and sine of position * frequency in half turns. The product in fp64: at positions of some
// thousands an fp32 angle would be off by more than fp32 results may be.
template <typename C>
__device__ void Angle(std::int64_t position, int j, int head_dim, C* cosine, C* sine) {
  constexpr double kPi = 3.14159265358979323846;
  const double frequency = pow(kRotaryBase, -2.0 * j / head_dim);
  if constexpr (std::is_same_v<C, double>) {
    sincos(static_cast<double>(position) * frequency, sine, cosine);
  } else {
    const double half_turns = static_cast<double>(position) * (frequency / kPi);
    sincospif(static_cast<float>(half_turns - 2 * rint(half_turns / 2)), sine, cosine);
  }
}

// One row of qkv: `whole` is the row of qkv, `q` and `kv` those of its parts. Moves from the whole
// to the parts, or back with the opposite turn.
template <typename T, int kCount, bool kForward>
__global__ void __launch_bounds__(kThreads)
    QkvKernel(const Sizes size, const T* whole_in, T* whole_out, const T* q_in, T* q_out,
              const T* kv_in, T* kv_out) {
  using C = Compute<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  C* cosines = reinterpret_cast<C*>(shared);
  C* sines = cosines + size.positions_per_block * size.half;
  const std::int64_t first_position =
      static_cast<std::int64_t>(blockIdx.x) * size.positions_per_block;
  const int positions = static_cast<int>(
      min(static_cast<std::int64_t>(size.positions_per_block), size.positions - first_position));
  for (int i = static_cast<int>(threadIdx.x); i < positions * size.half; i += kThreads) {
    const int position = i / size.half;
    Angle(size.global.Global(first_position + position), i - position * size.half, size.head_dim,
          &cosines[i], &sines[i]);
    if (!kForward) sines[i] = -sines[i];
  }
  __syncthreads();

  // Work items of a row: pairs of runs of the heads that turn (queries, then keys), then single
  // runs: values, and all that does not turn.
  const int d = size.head_dim;
  const int q_width = size.heads * d, kv_width = size.kv_heads * d;
  const int pairs_per_head = size.half / kCount;
  const int pairs = (size.heads + size.kv_heads) * pairs_per_head;
  // An odd head has one feature without partner.
  const int lone = pairs_per_head > 0 && d % 2 != 0 ? size.heads + size.kv_heads : 0;
  const int plain_begin = pairs_per_head > 0 ? q_width + kv_width : 0;
  const int plain = (q_width + 2 * kv_width - plain_begin) / kCount;
  const int items = pairs + lone + plain;
  const std::int64_t width = q_width + 2 * kv_width;

  // Columns of the whole row lie in q or kv.
  const auto in = [&](std::int64_t row, int column) {
    if (kForward) return whole_in + row * width + column;
    return column < q_width ? q_in + row * q_width + column
                            : kv_in + row * 2 * kv_width + (column - q_width);
  };
  const auto out = [&](std::int64_t row, int column) {
    if (!kForward) return whole_out + row * width + column;
    return column < q_width ? q_out + row * q_width + column
                            : kv_out + row * 2 * kv_width + (column - q_width);
  };

  const int samples = static_cast<int>(size.samples);
  // blockIdx.y shares out the samples.
  for (int item = static_cast<int>(threadIdx.x); item < items; item += kThreads) {
    for (int local = 0; local < positions; ++local) {
      const std::int64_t first_row = (first_position + local) * samples;
      if (item < pairs) {
        const int head = item / pairs_per_head;
        const int j = (item - head * pairs_per_head) * kCount;
        C cosine[kCount], sine[kCount];
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          cosine[i] = cosines[local * size.half + j + i];
          sine[i] = sines[local * size.half + j + i];
        }
        const int column = head * d + j;
#pragma unroll 4
        for (int sample = static_cast<int>(blockIdx.y); sample < samples;
             sample += static_cast<int>(gridDim.y)) {
          const std::int64_t row = first_row + sample;
          const auto first = Run<T, kCount>::Load(in(row, column));
          const auto second = Run<T, kCount>::Load(in(row, column + size.half));
          Run<T, kCount> turned_first, turned_second;
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            const C a = first.Get(i), b = second.Get(i);
            turned_first.Set(i, a * cosine[i] - b * sine[i]);
            turned_second.Set(i, b * cosine[i] + a * sine[i]);
          }
          turned_first.Store(out(row, column));
          turned_second.Store(out(row, column + size.half));
        }
      } else {
        const int rest = item - pairs;
        const int column = rest < lone ? rest * d + d - 1 : plain_begin + (rest - lone) * kCount;
#pragma unroll 4
        for (int sample = static_cast<int>(blockIdx.y); sample < samples;
             sample += static_cast<int>(gridDim.y)) {
          const std::int64_t row = first_row + sample;
          // A lone feature is one element: then kCount is 1.
          Run<T, kCount>::Load(in(row, column)).Store(out(row, column));
        }
      }
    }
  }
}

template <typename T, bool kForward>
cudaError_t Launch(const KernelCall& call, const T* whole_in, T* whole_out, const T* q_in, T* q_out,
                   const T* kv_in, T* kv_out) {
  using C = Compute<T>;
  const auto& dims = call.shape.dims;
  Sizes size;
  size.samples = dims[0];
  size.heads = static_cast<int>(dims[1]);
  size.kv_heads = static_cast<int>(dims[2]);
  size.positions = dims[3];
  size.head_dim = static_cast<int>(dims[5]);
  size.half = Has(call, kRotary) ? size.head_dim / 2 : 0;
  size.global = MakePositions(dims[4], call.shape.index, call.shape.count);
  if (size.samples == 0 || size.positions == 0) return cudaSuccess;
  // About eight rows a block amortise its angles.
  const std::int64_t rows_per_block = 8;
  size.positions_per_block =
      static_cast<int>(std::clamp<std::int64_t>(rows_per_block / size.samples, 1, rows_per_block));
  const auto blocks = static_cast<unsigned>((size.positions + size.positions_per_block - 1) /
                                            size.positions_per_block);
  const auto sample_blocks =
      static_cast<unsigned>(std::clamp<std::int64_t>(size.samples / rows_per_block, 1, 65535));
  const std::size_t shared =
      2 * static_cast<std::size_t>(size.positions_per_block * size.half) * sizeof(C);
  if (shared > 48 * 1024) return cudaErrorInvalidValue;  // Heads of thousands of features.
  constexpr int kWidest = kWide<T>;
  const int turning = size.half == 0 ? size.head_dim : size.half;
  const bool wide = turning % kWidest == 0 && size.head_dim % kWidest == 0 &&
                    Aligned(16, whole_in, whole_out, q_in, q_out, kv_in, kv_out);
  const dim3 grid(blocks, sample_blocks);
  if (wide) {
    QkvKernel<T, kWidest, kForward><<<grid, kThreads, shared, call.stream>>>(
        size, whole_in, whole_out, q_in, q_out, kv_in, kv_out);
  } else {
    QkvKernel<T, 1, kForward><<<grid, kThreads, shared, call.stream>>>(size, whole_in, whole_out,
                                                                       q_in, q_out, kv_in, kv_out);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchSplitQkv(const KernelCall& call) {
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return Launch<T, true>(call, Read<T>(call, 0), nullptr, nullptr, Write<T>(call, 0), nullptr,
                           Write<T>(call, 1));
  });
}

cudaError_t LaunchSplitQkvBackward(const KernelCall& call) {
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return Launch<T, false>(call, nullptr, Write<T>(call, 0), Read<T>(call, 0), nullptr,
                            Read<T>(call, 1), nullptr);
  });
}

}  // namespace twinstep::cuda
