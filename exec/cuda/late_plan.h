// Which lanes are late (late_lanes.h): those that only copy between host and GPU, or only have host
// tasks. Needs no CUDA.
#pragma once

#include <cstddef>
#include <span>

#include "exec/cuda/late_lanes.h"
#include "exec/runtime/process_place.h"
#include "exec/runtime/program.h"
#include "sim/graph/task_graph.h"

namespace twinstep::cuda {

// By rank and lane; lanes that are not late have no commands. `thread_of_rank` is read for own
// ranks.
LateLanes::Sizes PlanLateLanes(const Program& program, RankRange own,
                               std::span<const std::size_t> thread_of_rank);

// Whether any rendezvous waits for what those lanes do, as gathers do for copied chunks: all ranks
// wait there for the latest, and their dispatcher for what it has not launched. All processes get
// the same answer.
bool RendezvousWaitForCopies(const TaskGraph& graph);

}  // namespace twinstep::cuda
