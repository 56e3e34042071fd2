// The part of the verifier that makes every other look at a graph safe: all indices in range, all
// tables of the size that the contract says. A graph that comes from a file passes here first.
//
//   if (std::optional<Violation> bad = CheckStructure(graph)) return Fail(bad->message);
//   graph.TaskName(id);  // Any accessor of the graph is safe now.
//
// Checked: rank ranges and each task's rank; rank classes; enumerators; shapes, operands, slices
// and groups in range; a task touches buffers of its own rank only; the kind of a task fits its
// operation; SEND, RECV and collectives (and nothing else) have a rendezvous; edges stay inside a
// rank, each row sorted and without duplicates. Linear time.
#pragma once

#include <optional>

#include "sim/graph/task_graph.h"
#include "sim/graph/violation.h"

namespace twinstep {

// The first thing that breaks Rule::kStructure, if any.
std::optional<Violation> CheckStructure(const TaskGraph& graph);

}  // namespace twinstep
