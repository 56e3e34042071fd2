#include <algorithm>

#include "exec/cuda/group_operations.h"
#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/exact_squares.h"
#include "exec/cuda/kernels/rows.cuh"

namespace twinstep::cuda {
namespace {

constexpr int kThreads = 256;
// Pieces of an all-reduce are multiples of it: whole accumulators, and aligned.
constexpr std::int64_t kPieceBytes = 256;

struct Members {
  const std::byte* read[kMostMembers];
  std::byte* write[kMostMembers];
  int reads, writes;
};

// Elements of all reads to all writes.
template <typename T>
struct SumOfMembers {
  static constexpr int kWidest = kWide<T>;
  Members members;

  // A pair's operands are both in flight before the first is needed: one comes from afar.
  template <int kCount>
  struct Input {
    Run<T, kCount> first, second;
  };

  __device__ const T* At(int member, std::int64_t i) const {
    return reinterpret_cast<const T*>(members.read[member]) + i;
  }
  template <int kCount>
  __device__ Input<kCount> Load(std::int64_t, std::int64_t i) const {
    return {Run<T, kCount>::Load(At(0, i)), Run<T, kCount>::Load(At(1, i))};
  }
  template <int kCount>
  __device__ void Finish(std::int64_t, std::int64_t i, const Input<kCount>& input) const {
    Compute<T> sum[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum[j] = input.first.Get(j) + input.second.Get(j);
#pragma unroll 4
    for (int k = 2; k < members.reads; ++k) {
      const auto run = Run<T, kCount>::Load(At(k, i));
#pragma unroll
      for (int j = 0; j < kCount; ++j) sum[j] += run.Get(j);
    }
    Run<T, kCount> rounded;
#pragma unroll
    for (int j = 0; j < kCount; ++j) rounded.Set(j, sum[j]);
    // After every read: a member's operands may be the same bytes.
    for (int k = 0; k < members.writes; ++k) {
      rounded.Store(reinterpret_cast<T*>(members.write[k]) + i);
    }
  }
};

// Accumulators of the gradient's norm.
__global__ void ExactSumKernel(const Members members, std::int64_t accumulators) {
  for (std::int64_t i = threadIdx.x; i < accumulators; i += kThreads) {
    ExactLimbs sum{};
    for (int k = 0; k < members.reads; ++k) {
      AddExact(sum, reinterpret_cast<const ExactLimbs*>(members.read[k])[i]);
    }
    for (int k = 0; k < members.writes; ++k) {
      reinterpret_cast<ExactLimbs*>(members.write[k])[i] = sum;
    }
  }
}

cudaError_t Copy(std::byte* to, const std::byte* from, std::int64_t bytes, cudaStream_t stream) {
  if (to == from || bytes == 0) return cudaSuccess;
  return cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream);
}

// `bytes` of every member's read, from `read_offset` on, to the writes of `to` from `write_offset`.
cudaError_t Sum(const OpShape& shape, std::span<const MemberBuffers> members,
                std::int64_t read_offset, std::span<const MemberBuffers> to,
                std::int64_t write_offset, std::int64_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (members.size() == 1) {
    return Copy(to[0].write + write_offset, members[0].read + read_offset, bytes, stream);
  }
  if (members.size() > kMostMembers) return cudaErrorInvalidValue;
  Members all{};
  bool aligned = true;
  for (const MemberBuffers& member : members) {
    all.read[all.reads++] = member.read + read_offset;
    aligned = aligned && Aligned(16, member.read + read_offset);
  }
  for (const MemberBuffers& member : to) {
    all.write[all.writes++] = member.write + write_offset;
    aligned = aligned && Aligned(16, member.write + write_offset);
  }
  if ((shape.flags & kExactSum) != 0) {
    ExactSumKernel<<<1, kThreads, 0, stream>>>(
        all, bytes / static_cast<std::int64_t>(sizeof(ExactLimbs)));
    return cudaGetLastError();
  }
  return WithElement(shape.dtype, [&](auto element) {
    using T = decltype(element);
    return LaunchRows<4>(1, bytes / static_cast<std::int64_t>(sizeof(T)), aligned, stream,
                         SumOfMembers<T>{all});
  });
}

}  // namespace

cudaError_t RunGroupPart(const OpShape& shape, std::int64_t bytes,
                         std::span<const MemberBuffers> members, std::size_t part,
                         cudaStream_t stream) {
  const auto count = static_cast<std::int64_t>(members.size());
  const auto index = static_cast<std::int64_t>(part);
  const std::int64_t shard = bytes / count;
  const MemberBuffers& own = members[part];
  switch (shape.op) {
    case OpCode::kAllReduce: {
      // Every member sums a piece, and writes it to all.
      std::int64_t piece = (bytes + count - 1) / count;
      piece = (piece + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
      const std::int64_t begin = std::min(index * piece, bytes);
      return Sum(shape, members, begin, members, begin, std::min(piece, bytes - begin), stream);
    }
    case OpCode::kReduceScatter:
      return Sum(shape, members, index * shard, members.subspan(part, 1), 0, shard, stream);
    case OpCode::kAllGather:
      for (std::int64_t i = 0; i < count; ++i) {
        // Members begin with another one each, so that all links are busy.
        const std::int64_t from = (index + i) % count;
        const cudaError_t error = Copy(own.write + from * shard,
                                       members[static_cast<std::size_t>(from)].read, shard, stream);
        if (error != cudaSuccess) return error;
      }
      return cudaSuccess;
    case OpCode::kRingShift:
      return Copy(own.write, members[static_cast<std::size_t>((index + count - 1) % count)].read,
                  bytes, stream);
    default:  // SEND and RECV.
      if (own.write == nullptr) return cudaSuccess;
      for (const MemberBuffers& from : members) {
        if (from.read != nullptr) return Copy(own.write, from.read, bytes, stream);
      }
      return cudaSuccess;
  }
}

}  // namespace twinstep::cuda
