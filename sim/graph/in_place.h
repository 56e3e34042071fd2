// Whether a task writes into a buffer that it reads: an all-gather does whose shard lies at its
// place in the whole.
//
//   if (IsInPlace(graph, id)) ...  // Its own shard need not be copied.
#pragma once

#include "sim/graph/task_graph.h"

namespace twinstep {

inline bool IsInPlace(const TaskGraph& graph, TaskId id) {
  for (const Operand& read : graph.Reads(id)) {
    for (const Operand& written : graph.Writes(id)) {
      if (read.buffer == written.buffer) return true;
    }
  }
  return false;
}

}  // namespace twinstep
