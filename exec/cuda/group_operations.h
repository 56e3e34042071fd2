// Collectives and messages among ranks of one process, whose GPUs reach each other's memory:
// copies, and sums in group order as exec/cpu/group_operations.h makes them, so that the bits do
// not depend on where a rank runs.
//
//   // Once all members have come:
//   for (std::size_t i = 0; i < members.size(); ++i) RunGroupPart(shape, bytes, members, i,
//   stream_i);
//   // A member may go on once all parts are done.
//
// A pair of H200 moves more by these than by NCCL, whose kernels pass data through buffers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/runtime/member_buffers.h"
#include "sim/graph/op.h"

namespace twinstep::cuda {

// Members of a group that one kernel sums over.
inline constexpr std::size_t kMostMembers = 64;

// What member `part` does, on a stream of its GPU, which must be the current one; parts may run at
// the same time. `bytes` of the whole tensor. A member's read and write may be the same bytes, and
// a shard may lie at its place in the whole. cudaErrorInvalidValue if a sum has more than
// kMostMembers.
cudaError_t RunGroupPart(const OpShape& shape, std::int64_t bytes,
                         std::span<const MemberBuffers> members, std::size_t part,
                         cudaStream_t stream);

}  // namespace twinstep::cuda
