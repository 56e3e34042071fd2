#include <algorithm>

#include "exec/cuda/group_operations.h"
#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/exact_squares.h"
#include "exec/cuda/kernels/rows.cuh"

namespace twinstep::cuda {
namespace {

constexpr int kThreads = 256;

struct Members {
  const std::byte* read[kMostMembers];
  std::byte* write[kMostMembers];
  int count;
};

// Elements of all reads, from `offset` on; to the writes [first_write, end_write).
template <typename T>
struct SumOfMembers {
  static constexpr int kWidest = kWide<T>;
  Members members;
  std::int64_t offset;
  int first_write, end_write;

  template <int kCount>
  using Input = Run<T, kCount>;

  __device__ const T* At(int member, std::int64_t i) const {
    return reinterpret_cast<const T*>(members.read[member]) + offset + i;
  }
  template <int kCount>
  __device__ Run<T, kCount> Load(std::int64_t, std::int64_t i) const {
    return Run<T, kCount>::Load(At(0, i));
  }
  template <int kCount>
  __device__ void Finish(std::int64_t, std::int64_t i, const Run<T, kCount>& first) const {
    Compute<T> sum[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum[j] = first.Get(j);
#pragma unroll 4
    for (int k = 1; k < members.count; ++k) {
      const auto run = Run<T, kCount>::Load(At(k, i));
#pragma unroll
      for (int j = 0; j < kCount; ++j) sum[j] += run.Get(j);
    }
    Run<T, kCount> rounded;
#pragma unroll
    for (int j = 0; j < kCount; ++j) rounded.Set(j, sum[j]);
    // After every read: a member's operands may be the same bytes.
    for (int k = first_write; k < end_write; ++k) {
      rounded.Store(reinterpret_cast<T*>(members.write[k]) + i);
    }
  }
};

// Accumulators of the gradient's norm.
__global__ void ExactSumKernel(const Members members, std::int64_t accumulators) {
  for (std::int64_t i = threadIdx.x; i < accumulators; i += kThreads) {
    ExactLimbs sum{};
    for (int k = 0; k < members.count; ++k) {
      AddExact(sum, reinterpret_cast<const ExactLimbs*>(members.read[k])[i]);
    }
    for (int k = 0; k < members.count; ++k) {
      reinterpret_cast<ExactLimbs*>(members.write[k])[i] = sum;
    }
  }
}

cudaError_t Sum(const OpShape& shape, const Members& members, std::int64_t offset_bytes,
                std::int64_t bytes, int first_write, int end_write, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if ((shape.flags & kExactSum) != 0) {
    ExactSumKernel<<<1, kThreads, 0, stream>>>(
        members, bytes / static_cast<std::int64_t>(sizeof(ExactLimbs)));
    return cudaGetLastError();
  }
  return WithElement(shape.dtype, [&](auto element) {
    using T = decltype(element);
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
    bool aligned = offset_bytes % 16 == 0;
    for (int k = 0; k < members.count; ++k) aligned = aligned && Aligned(16, members.read[k]);
    for (int k = first_write; k < end_write; ++k)
      aligned = aligned && Aligned(16, members.write[k]);
    const SumOfMembers<T> body{members, offset_bytes / kSize, first_write, end_write};
    return LaunchRows(1, bytes / kSize, aligned, stream, body);
  });
}

cudaError_t Copy(std::byte* to, const std::byte* from, std::int64_t bytes, cudaStream_t stream) {
  if (to == from || bytes == 0) return cudaSuccess;
  return cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                         stream);
}

}  // namespace

cudaError_t RunGroupOperation(const OpShape& shape, std::int64_t bytes,
                              std::span<const MemberBuffers> members, cudaStream_t stream) {
  const auto count = static_cast<std::int64_t>(members.size());
  const std::int64_t shard = bytes / count;
  Members all{};
  const bool sums = shape.op == OpCode::kAllReduce || shape.op == OpCode::kReduceScatter;
  if (sums) {
    if (members.size() > kMostMembers) return cudaErrorInvalidValue;
    all.count = static_cast<int>(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      all.read[i] = members[i].read;
      all.write[i] = members[i].write;
    }
  }
  switch (shape.op) {
    case OpCode::kAllReduce:
      return Sum(shape, all, 0, bytes, 0, all.count, stream);
    case OpCode::kReduceScatter:
      for (int i = 0; i < all.count; ++i) {
        const cudaError_t error = Sum(shape, all, i * shard, shard, i, i + 1, stream);
        if (error != cudaSuccess) return error;
      }
      return cudaSuccess;
    case OpCode::kAllGather:
      for (const MemberBuffers& to : members) {
        for (std::int64_t i = 0; i < count; ++i) {
          const cudaError_t error =
              Copy(to.write + i * shard, members[static_cast<std::size_t>(i)].read, shard, stream);
          if (error != cudaSuccess) return error;
        }
      }
      return cudaSuccess;
    case OpCode::kRingShift:
      for (std::int64_t i = 0; i < count; ++i) {
        const cudaError_t error =
            Copy(members[static_cast<std::size_t>(i)].write,
                 members[static_cast<std::size_t>((i + count - 1) % count)].read, bytes, stream);
        if (error != cudaSuccess) return error;
      }
      return cudaSuccess;
    default:  // SEND and RECV.
      for (const MemberBuffers& from : members) {
        if (from.read == nullptr) continue;
        for (const MemberBuffers& to : members) {
          if (to.write == nullptr) continue;
          const cudaError_t error = Copy(to.write, from.read, bytes, stream);
          if (error != cudaSuccess) return error;
        }
      }
      return cudaSuccess;
  }
}

}  // namespace twinstep::cuda
