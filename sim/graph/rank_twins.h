// Ranks whose tasks, edges and buffers are the same up to numbering, as data- and tensor-parallel
// replicas are: what holds inside one rank (lifetimes, placement) holds inside its twins.
#pragma once

#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

// Ids of the buffers of each rank, increasing.
std::vector<std::vector<BufferId>> BuffersByRank(const TaskGraph& graph);

// For each rank the lowest-numbered rank that it equals: lanes, operands (by place in the rank's
// buffer list), edges inside the rank, and bytes, pool, role and persistence of buffers. Shapes and
// tags do not count. `buffers` from BuffersByRank.
std::vector<RankId> RankTwins(const TaskGraph& graph,
                              const std::vector<std::vector<BufferId>>& buffers);

}  // namespace twinstep
