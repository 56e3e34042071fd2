// Says why a replay cannot go on.
#pragma once

#include <span>

#include "sim/engine/topology.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// `pending` holds the unfinished predecessors of every task, `done` whether it ended. At least one
// task is not done and none runs. The Error (kNo, rule "deadlock") names a task that waits at its
// rendezvous, its rank and lane, who is missing there and what holds the missing one up; or, where
// no task waits for another rank, the circle of predecessors.
Error DeadlockError(const TaskGraph& graph, const Topology& topology,
                    std::span<const std::uint32_t> pending, const std::vector<bool>& done);

}  // namespace twinstep
