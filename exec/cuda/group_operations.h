// Collectives and messages among ranks that share one GPU: copies, and sums in group order as
// exec/cpu/group_operations.h makes them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/graph/op.h"

namespace twinstep::cuda {

// Members of a group that one kernel sums over.
inline constexpr std::size_t kMostMembers = 64;

// Operands of one member in device memory; read or write is null where its task has none.
struct MemberBuffers {
  const std::byte* read = nullptr;
  std::byte* write = nullptr;
};

// All members' work on one stream. `bytes` of the whole tensor. A member's read and write may be
// the same bytes, and a shard may lie at its place in the whole. cudaErrorInvalidValue if a sum has
// more than kMostMembers.
cudaError_t RunGroupOperation(const OpShape& shape, std::int64_t bytes,
                              std::span<const MemberBuffers> members, cudaStream_t stream);

}  // namespace twinstep::cuda
