#include <cmath>
#include <limits>

#include "exec/cuda/flash_attention.h"
#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/philox.h"
#include "exec/cuda/kernels/positions.h"

namespace twinstep::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 4;  // Of a block.
constexpr std::int64_t kLargestHead = 256;
constexpr int kMostParts = static_cast<int>(kLargestHead) / kWarp;  // Features of a lane.

__device__ float Exp(float x) { return expf(x); }
__device__ double Exp(double x) { return exp(x); }
__device__ float Log(float x) { return logf(x); }
__device__ double Log(double x) { return log(x); }

struct Sizes {
  std::int64_t b, heads, kv_heads, queries, keys, d;
  Positions positions;
  // Dropout of the probabilities.
  const DeviceStep* step;
  std::int64_t first_sample, first_head, block;
  bool drops;

  // Of the first feature of a head.
  __device__ std::int64_t Q(std::int64_t i, std::int64_t sample, std::int64_t head) const {
    return ((i * b + sample) * heads + head) * d;
  }
  __device__ std::int64_t K(std::int64_t j, std::int64_t sample, std::int64_t kv_head) const {
    return ((j * b + sample) * 2 * kv_heads + kv_head) * d;
  }
  __device__ std::int64_t V(std::int64_t j, std::int64_t sample, std::int64_t kv_head) const {
    return K(j, sample, kv_head) + kv_heads * d;
  }
  __device__ std::int64_t Row(std::int64_t i, std::int64_t sample, std::int64_t head) const {
    const std::int64_t length = positions.piece == 0 ? queries : positions.piece;
    const std::int64_t begin = i < length ? 0 : length;
    return begin * b * heads + (sample * heads + head) * length + i - begin;
  }
  __device__ std::int64_t QueryPosition(std::int64_t i) const { return positions.Global(i); }
  __device__ std::int64_t KeyPosition(std::int64_t j) const {
    return GatheredPosition(positions, j);
  }
};

Sizes SizesOf(const KernelCall& call) {
  const auto& dims = call.shape.dims;
  return {.b = dims[0],
          .heads = dims[1],
          .kv_heads = dims[2],
          .queries = dims[3],
          .keys = dims[4],
          .d = dims[5],
          .positions = MakePositions(dims[4], call.shape.index, call.shape.count),
          .step = call.step,
          .first_sample = call.place.first_sample,
          .first_head = call.place.tp * dims[1],
          .block = call.place.block,
          .drops = Has(call, kHasDropout)};
}

// What a probability is multiplied with; `key` is DropoutKey's.
template <typename C>
__device__ C DropFactor(const Sizes& size, std::uint64_t key, std::int64_t sample,
                        std::int64_t head, std::int64_t query, std::int64_t position) {
  bool keep[1];
  DrawKeep(key, size.step->threshold[1],
           {static_cast<std::uint32_t>(size.first_sample + sample),
            static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(size.first_head + head)},
           position, keep);
  return keep[0] ? static_cast<C>(size.step->scale[1]) : C{0};
}

__device__ std::uint64_t KeyOfDropout(const Sizes& size) {
  return size.drops ? DropoutKey(size.step->seed, size.step->step,
                                 static_cast<std::uint32_t>(DropoutSite::kAttentionProbabilities),
                                 static_cast<std::uint32_t>(size.block))
                    : 0;
}

template <typename C>
__device__ C WarpSum(C x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, offset);
  }
  return x;
}

// A row of a head in the registers of a warp: lane l has features l, l + 32, ...
template <typename C, int kParts>
struct Features {
  C x[kParts];

  template <typename T>
  __device__ static Features Load(const T* from, std::int64_t d) {
    Features result;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const std::int64_t feature = p * kWarp + threadIdx.x;
      result.x[p] = feature < d ? ToCompute(from[feature]) : C{0};
    }
    return result;
  }
  __device__ static Features Zero() {
    Features result;
#pragma unroll
    for (int p = 0; p < kParts; ++p) result.x[p] = 0;
    return result;
  }
  template <typename T>
  __device__ void Store(T* to, std::int64_t d) const {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const std::int64_t feature = p * kWarp + threadIdx.x;
      if (feature < d) Round(x[p], &to[feature]);
    }
  }
  __device__ C Dot(const Features& other) const {
    C sum = 0;
#pragma unroll
    for (int p = 0; p < kParts; ++p) sum += x[p] * other.x[p];
    return WarpSum(sum);
  }
  __device__ void Add(C factor, const Features& other) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) x[p] += factor * other.x[p];
  }
  __device__ void Scale(C factor) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) x[p] *= factor;
  }
};

template <typename T, int kParts>
__global__ void ForwardKernel(const Sizes size, const T* q, const T* kv, T* o, Compute<T>* lse) {
  using C = Compute<T>;
  using Row = Features<C, kParts>;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y;
  const std::int64_t head = blockIdx.y, sample = blockIdx.z;
  if (i >= size.queries) return;
  const std::int64_t kv_head = head / (size.heads / size.kv_heads);
  const std::int64_t position = size.QueryPosition(i);
  const std::uint64_t drop_key = KeyOfDropout(size);
  const C scale = C{1} / sqrt(static_cast<C>(size.d));
  const Row query = Row::Load(q + size.Q(i, sample, head), size.d);
  Row sum_v = Row::Zero();
  C max = -std::numeric_limits<C>::infinity(), sum = 0;
  for (std::int64_t j = 0; j < size.keys; ++j) {
    const std::int64_t key_position = size.KeyPosition(j);
    if (key_position > position) continue;
    const C score = scale * query.Dot(Row::Load(kv + size.K(j, sample, kv_head), size.d));
    const C new_max = score > max ? score : max;
    const C rescale = Exp(max - new_max);
    C p = Exp(score - new_max);
    sum = sum * rescale + p;
    max = new_max;
    if (size.drops) p *= DropFactor<C>(size, drop_key, sample, head, position, key_position);
    sum_v.Scale(rescale);
    sum_v.Add(p, Row::Load(kv + size.V(j, sample, kv_head), size.d));
  }
  sum_v.Scale(C{1} / sum);
  sum_v.Store(o + size.Q(i, sample, head), size.d);
  if (threadIdx.x == 0) lse[size.Row(i, sample, head)] = max + Log(sum);
}

// dq of a query row, and its sum of do * o.
template <typename T, int kParts>
__global__ void QueryBackwardKernel(const Sizes size, const T* d_o, const T* q, const T* kv,
                                    const T* o, const Compute<T>* lse, T* dq,
                                    Compute<T>* row_sums) {
  using C = Compute<T>;
  using Row = Features<C, kParts>;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y;
  const std::int64_t head = blockIdx.y, sample = blockIdx.z;
  if (i >= size.queries) return;
  const std::int64_t kv_head = head / (size.heads / size.kv_heads);
  const std::int64_t position = size.QueryPosition(i);
  const std::uint64_t drop_key = KeyOfDropout(size);
  const C scale = C{1} / sqrt(static_cast<C>(size.d));
  const Row query = Row::Load(q + size.Q(i, sample, head), size.d);
  const Row gradient = Row::Load(d_o + size.Q(i, sample, head), size.d);
  const C row_sum = gradient.Dot(Row::Load(o + size.Q(i, sample, head), size.d));
  const C row_lse = lse[size.Row(i, sample, head)];
  Row result = Row::Zero();
  for (std::int64_t j = 0; j < size.keys; ++j) {
    const std::int64_t key_position = size.KeyPosition(j);
    if (key_position > position) continue;
    const Row key = Row::Load(kv + size.K(j, sample, kv_head), size.d);
    const C p = Exp(scale * query.Dot(key) - row_lse);
    C dp = gradient.Dot(Row::Load(kv + size.V(j, sample, kv_head), size.d));
    if (size.drops) dp *= DropFactor<C>(size, drop_key, sample, head, position, key_position);
    result.Add(p * (dp - row_sum) * scale, key);
  }
  result.Store(dq + size.Q(i, sample, head), size.d);
  if (threadIdx.x == 0) row_sums[size.Row(i, sample, head)] = row_sum;
}

template <typename T, int kParts>
__global__ void KeyBackwardKernel(const Sizes size, const T* d_o, const T* q, const T* kv,
                                  const Compute<T>* lse, const Compute<T>* row_sums, T* dkv) {
  using C = Compute<T>;
  using Row = Features<C, kParts>;
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y;
  const std::int64_t kv_head = blockIdx.y, sample = blockIdx.z;
  if (j >= size.keys) return;
  const std::int64_t group = size.heads / size.kv_heads;
  const std::int64_t key_position = size.KeyPosition(j);
  const std::uint64_t drop_key = KeyOfDropout(size);
  const C scale = C{1} / sqrt(static_cast<C>(size.d));
  const Row key = Row::Load(kv + size.K(j, sample, kv_head), size.d);
  const Row value = Row::Load(kv + size.V(j, sample, kv_head), size.d);
  Row dk = Row::Zero(), dv = Row::Zero();
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::int64_t i = 0; i < size.queries; ++i) {
      const std::int64_t position = size.QueryPosition(i);
      if (key_position > position) continue;
      const Row query = Row::Load(q + size.Q(i, sample, head), size.d);
      const Row gradient = Row::Load(d_o + size.Q(i, sample, head), size.d);
      const C p = Exp(scale * query.Dot(key) - lse[size.Row(i, sample, head)]);
      C factor = 1;
      if (size.drops) {
        factor = DropFactor<C>(size, drop_key, sample, head, position, key_position);
      }
      const C dp = gradient.Dot(value) * factor;
      dv.Add(p * factor, gradient);
      dk.Add(p * (dp - row_sums[size.Row(i, sample, head)]) * scale, query);
    }
  }
  dk.Store(dkv + size.K(j, sample, kv_head), size.d);
  dv.Store(dkv + size.V(j, sample, kv_head), size.d);
}

// Calls launch(T{}, number of features of a lane as a constant).
template <typename Function>
cudaError_t WithSizes(const KernelCall& call, Function&& launch) {
  const std::int64_t d = call.shape.dims[5];
  if (d > kLargestHead) return cudaErrorInvalidValue;
  return WithElement(call.shape.dtype, [&](auto element) {
    if (d <= kWarp) return launch(element, std::integral_constant<int, 1>{});
    if (d <= 4 * kWarp) return launch(element, std::integral_constant<int, 4>{});
    return launch(element, std::integral_constant<int, kMostParts>{});
  });
}

dim3 GridOf(std::int64_t rows, std::int64_t heads, std::int64_t samples) {
  return {static_cast<unsigned>((rows + kWarps - 1) / kWarps), static_cast<unsigned>(heads),
          static_cast<unsigned>(samples)};
}

}  // namespace

std::size_t FlashAttentionWorkspaceBytes(const OpShape& shape) {
  if (shape.op != OpCode::kAttentionBackward) return 0;
  const std::size_t element = shape.dtype == Dtype::kFp64 ? sizeof(double) : sizeof(float);
  return static_cast<std::size_t>(shape.dims[0] * shape.dims[1] * shape.dims[3]) * element;
}

cudaError_t FlashAttentionForward(const KernelCall& call) {
  const Sizes size = SizesOf(call);
  return WithSizes(call, [&](auto element, auto parts) {
    using T = decltype(element);
    ForwardKernel<T, decltype(parts)::value>
        <<<GridOf(size.queries, size.heads, size.b), dim3(kWarp, kWarps), 0, call.stream>>>(
            size, Read<T>(call, 0), Read<T>(call, 1), Write<T>(call, 0),
            Write<Compute<T>>(call, 1));
    return cudaGetLastError();
  });
}

cudaError_t FlashAttentionBackward(const KernelCall& call) {
  const Sizes size = SizesOf(call);
  return WithSizes(call, [&](auto element, auto parts) {
    using T = decltype(element);
    auto* const row_sums = reinterpret_cast<Compute<T>*>(call.workspace);
    QueryBackwardKernel<T, decltype(parts)::value>
        <<<GridOf(size.queries, size.heads, size.b), dim3(kWarp, kWarps), 0, call.stream>>>(
            size, Read<T>(call, 0), Read<T>(call, 1), Read<T>(call, 2), Read<T>(call, 3),
            Read<Compute<T>>(call, 4), Write<T>(call, 0), row_sums);
    KeyBackwardKernel<T, decltype(parts)::value>
        <<<GridOf(size.keys, size.kv_heads, size.b), dim3(kWarp, kWarps), 0, call.stream>>>(
            size, Read<T>(call, 0), Read<T>(call, 1), Read<T>(call, 2), Read<Compute<T>>(call, 4),
            row_sums, Write<T>(call, 1));
    return cudaGetLastError();
  });
}

}  // namespace twinstep::cuda
