// What each operator of an iteration does to GPU memory, as ProTrain's profiler measures it
// (ProTrain): hooks at the begin and end of each module see what is allocated and the peak
// since the hook before. What a module makes and frees inside (intra-operator), and what functions
// between two modules do (inter-operator), is invisible to a profile that adds up stored tensors.
//
//   for (const OperatorMemoryUse& use : MeasureOperatorMemory(graph, rank)) {
//     use.intra_peak_bytes;  // Peak during the module, less allocated just before.
//   }
//
// Counted are activations, temporaries, workspaces and messages; not model states, which chunks
// account for. A buffer is allocated before the first and freed after the last task that uses it,
// in issue order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

// One module, in issue order. Deltas are changes of the bytes allocated.
struct OperatorMemoryUse {
  TaskId task = 0;
  std::int64_t workspace_bytes = 0;      // Of the kernel itself, besides its buffers.
  std::int64_t inter_current_bytes = 0;  // From the end of the module before to this one's begin.
  std::int64_t inter_peak_bytes = 0;     // Peak in between, less allocated at its start.
  std::int64_t intra_current_bytes = 0;  // From begin to end.
  std::int64_t intra_peak_bytes = 0;     // Peak during the module, less allocated just before.
  // Activations that a forward stored and that have been freed since the end of the module before:
  // part of the current deltas.
  std::int64_t released_bytes = 0;
};

// Whether a framework has a module for the operation (linear layer, norm, embedding, dropout,
// activation, loss), or a function between modules does it: attention, splits, sums.
bool IsModule(OpCode op);

// Scratch that a kernel takes besides its buffers, by task; empty = none.
using WorkspaceOfTask = std::function<std::int64_t(TaskId)>;

// The computing modules of a rank but for the optimizer. What follows the last is left out.
std::vector<OperatorMemoryUse> MeasureOperatorMemory(const TaskGraph& graph, RankId rank,
                                                     const WorkspaceOfTask& workspace = {});

}  // namespace twinstep
