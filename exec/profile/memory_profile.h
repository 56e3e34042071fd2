// The memory half of a profile, as ProTrain's profiler measures it: of every module
// of an iteration, its workspace and its intra- and inter-operator deltas. The CPU backend runs the
// iteration and says how much scratch memory each of its kernels took; buffers come from the graph,
// which allocates before the first use and frees after the last.
//
//   Status done = ProfileMemory(lowered, &profile);  // Fills profile.operator_memory.
#pragma once

#include <cstdint>
#include <span>

#include "exec/profile/plan_run.h"
#include "hw_specs/profile.pb.h"
#include "sim/result.h"

namespace twinstep {

// Entries of rank 0's first micro-batch in order of execution, and workspace_bytes of the operators
// that the profile has. BLAS allocates its own workspaces, which are not in. Runs one iteration.
// Errors as PlanRun's.
Status ProfileMemory(const LoweredPlan& lowered, Profile* profile);

// The same of a graph whose kernels took so much scratch, by task; nothing runs.
void DescribeMemory(const TaskGraph& graph, std::span<const std::int64_t> scratch_bytes,
                    Profile* profile);

}  // namespace twinstep
