// Proves that a task graph is a correct program, or says which rule breaks where.
//
//   if (std::optional<Violation> bad = Verify(graph)) std::puts(bad->message.c_str());
//
// Rules, in the order in which they are checked; the first violation is reported:
// - structure: CheckStructure, and each lane's tasks are ordered by paths of the graph.
// - cycle, issue-order: edges lead forward in the issue order of their rank.
// - read-before-write: a buffer that is not persistent is written before it is read.
// - hazard: every RAW, WAR and WAW pair on a buffer is ordered by a path inside the owning rank
//   (rank-local vector clocks).
// - rendezvous-incomplete: every rendezvous has all its participants, and they agree.
// - rendezvous-cycle: with each rendezvous contracted to one node, the union of all ranks' issue
//   orders over all lanes is acyclic (else NCCL hangs).
//
// O(tasks x lanes + edges x lanes + operands x lanes) time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/graph/task_graph.h"
#include "sim/graph/violation.h"

namespace twinstep {

std::optional<Violation> Verify(const TaskGraph& graph);

// For every task, the last task of each lane of its own rank that is certain to have finished
// before it starts (position in the lane + 1; 0 = none): row-major [task][kLaneCount]. Task `a` is
// ordered before task `b` of the same rank exactly if
//
//   clocks[b * kLaneCount + lane(a)] > positions[a]
//
// Needs edges that lead forward inside their rank and order each lane: of a verified graph.
std::vector<std::uint32_t> VectorClocks(const TaskGraph& graph);
// Position of each task in its lane (of its rank), counted from 0.
std::vector<std::uint32_t> LanePositions(const TaskGraph& graph);

}  // namespace twinstep
