// A kernel without mathematics for tests of the runtime: all that a task writes depends on every
// byte that it reads, so that a task that sees other bytes than it should changes all that follows.
// Faster than real operators, and as deterministic. For recipes in which all numbers are fp32.
//
//   CpuBackend backend({.kernel = MixingKernel(graph)});
#pragma once

#include <functional>

#include "exec/cpu/kernel.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// The graph must outlive the kernel.
std::function<void(TaskId, const KernelCall&)> MixingKernel(const TaskGraph& graph);

}  // namespace twinstep
