// Collectives and messages in shared memory: one thread does the work of all members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/runtime/member_buffers.h"
#include "sim/graph/op.h"

namespace twinstep {

// `members` in group order; a member's read and write may be the same bytes or, of all-gather and
// reduce-scatter, the shard may lie at its place in the whole. Sums are taken in group order, so
// the same bytes come out on any machine and in any dispatch order. `parts` is scratch for one
// pointer a member, reserved by the caller.
//
// `bytes`: of the whole tensor, a multiple of the members for all-gather and reduce-scatter.
void RunGroupOperation(const OpShape& shape, std::int64_t bytes,
                       std::span<const MemberBuffers> members,
                       std::vector<const std::byte*>* parts);

}  // namespace twinstep
