// How messages name the things of a graph.
#pragma once

#include <string>

#include "sim/graph/task_graph.h"

namespace twinstep {

// "\"r3 compute gemm_forward mb2\" (task 12)". The graph must pass CheckStructure.
std::string DescribeTask(const TaskGraph& graph, TaskId id);

// "buffer 7 (gpu activation, 4096 bytes)".
std::string DescribeBuffer(const TaskGraph& graph, BufferId id);

}  // namespace twinstep
