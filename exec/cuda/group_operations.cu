#include <algorithm>

#include "exec/cuda/group_operations.h"
#include "exec/cuda/kernels/element.cuh"

namespace twinstep::cuda {
namespace {

constexpr int kThreads = 256;

struct Members {
  const std::byte* read[kMostMembers];
  std::byte* write[kMostMembers];
  int count;
};

// Elements [0, elements) of all reads, from `offset` on; to all writes or to one.
template <typename T>
__global__ void SumKernel(const Members members, std::int64_t offset, std::int64_t elements,
                          int first_write, int end_write) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < elements; i += stride) {
    Compute<T> sum = ToCompute(reinterpret_cast<const T*>(members.read[0])[offset + i]);
    for (int k = 1; k < members.count; ++k) {
      sum += ToCompute(reinterpret_cast<const T*>(members.read[k])[offset + i]);
    }
    T rounded;
    Round(sum, &rounded);
    for (int k = first_write; k < end_write; ++k) {
      reinterpret_cast<T*>(members.write[k])[i] = rounded;
    }
  }
}

// Accumulators of the gradient's norm: 256-bit numbers, least significant limb first, that stick at
// their largest value (exec/cpu/exact_sum.h).
__global__ void ExactSumKernel(const Members members, std::int64_t accumulators) {
  constexpr int kLimbs = 4;
  using Limb = unsigned long long;
  for (std::int64_t i = threadIdx.x; i < accumulators; i += kThreads) {
    Limb sum[kLimbs] = {};
    for (int k = 0; k < members.count; ++k) {
      const Limb* const part = reinterpret_cast<const Limb*>(members.read[k]) + i * kLimbs;
      Limb carry = 0;
      for (int limb = 0; limb < kLimbs; ++limb) {
        const Limb with_carry = sum[limb] + carry;
        carry = with_carry < carry ? 1 : 0;
        sum[limb] = with_carry + part[limb];
        carry += sum[limb] < with_carry ? 1 : 0;
      }
      if (carry > 0) {
        for (Limb& limb : sum) limb = ~Limb{0};
      }
    }
    for (int k = 0; k < members.count; ++k) {
      for (int limb = 0; limb < kLimbs; ++limb) {
        reinterpret_cast<Limb*>(members.write[k])[i * kLimbs + limb] = sum[limb];
      }
    }
  }
}

cudaError_t Sum(const OpShape& shape, const Members& members, std::int64_t offset_bytes,
                std::int64_t bytes, int first_write, int end_write, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if ((shape.flags & kExactSum) != 0) {
    ExactSumKernel<<<1, kThreads, 0, stream>>>(members, bytes / 32);
    return cudaGetLastError();
  }
  return WithElement(shape.dtype, [&](auto element) {
    using T = decltype(element);
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
    constexpr std::int64_t kMostBlocks = 2048;
    const std::int64_t elements = bytes / kSize;
    const std::int64_t blocks = std::min(kMostBlocks, (elements + kThreads - 1) / kThreads);
    SumKernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        members, offset_bytes / kSize, elements, first_write, end_write);
    return cudaGetLastError();
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
