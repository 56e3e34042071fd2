// Which of a program's collectives and messages are NCCL's, and in which communicators; needs no
// CUDA.
//
//   Result<std::vector<NcclPlan>> plans =
//       PlanNcclGroups(program, {.own = {0, 2}, .device_of_rank = {0, 1}});
#pragma once

#include <vector>

#include "exec/runtime/process_place.h"
#include "exec/runtime/program.h"
#include "sim/graph/ids.h"
#include "sim/graph/op.h"
#include "sim/result.h"

namespace twinstep::cuda {

// A member of this process: its place in its group, its GPU.
struct NcclMember {
  int index = 0;
  int device = 0;
};

// A communicator: the group of a lane's rendezvous.
struct NcclPlan {
  std::vector<NcclMember> own;  // In order of the group; empty where this process has none.
  int size = 0;
  bool has_messages = false;
  std::vector<RendezvousId> rendezvous;
};

struct NcclPlanInput {
  RankRange own;                    // The ranks of this process; all processes have as many.
  std::vector<int> device_of_rank;  // By rank; only own ones count.
  bool peer_memory = true;     // Own GPUs reach each other: groups of one process are not NCCL's.
  bool deterministic = false;  // Sums must be in rank order, as NCCL's are not.
};

// Neighbours of the ring of members send and receive; others are collectives.
bool IsMessage(OpCode op);

// In the same order in all processes. An Error (kNo) where deterministic sums would be NCCL's, or
// where two members of a group share a GPU.
Result<std::vector<NcclPlan>> PlanNcclGroups(const Program& program, const NcclPlanInput& input);

}  // namespace twinstep::cuda
