// Says why a replay cannot go on.
#pragma once

#include <cstdint>
#include <span>

#include "sim/cost/graph_costs.h"
#include "sim/engine/topology.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// The end of a task that has not ended.
inline constexpr Picoseconds kNotDone = -1;

// `pending` holds the unfinished predecessors of every task, `end_ps` its end or kNotDone. At least
// one task is not done and none runs. The Error (kNo, rule "deadlock") names a task that waits at
// its rendezvous, its rank and lane, who is missing there and what holds the missing one up; or,
// where no task waits for another rank, the circle of predecessors.
Error DeadlockError(const TaskGraph& graph, const Topology& topology,
                    std::span<const std::uint32_t> pending, std::span<const Picoseconds> end_ps);

}  // namespace twinstep
