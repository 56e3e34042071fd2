// Proves that a task graph is a correct program, or says which rule breaks where.
//
//   if (std::optional<Violation> bad = Verify(graph)) std::puts(bad->message.c_str());
//
// Rules: structure (ids in range, rank ranges, lane order present), no cycle, issue order (also
// of each rank) is a topological order, every buffer written before it is read, every RAW, WAR
// and WAW hazard ordered by a path inside the owning rank (rank-local vector clocks, O(tasks x
// lanes)), every rendezvous complete, and with each rendezvous contracted to one node the union of
// all ranks' issue orders over all lanes is acyclic (else NCCL hangs).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

enum class Rule {
  kStructure,
  kCycle,
  kIssueOrder,
  kReadBeforeWrite,
  kHazard,
  kRendezvousIncomplete,
  kRendezvousCycle,
};
const char* Name(Rule rule);

struct Violation {
  Rule rule;
  TaskId first = kNone, second = kNone;  // The tasks concerned.
  BufferId buffer = kNone;
  RendezvousId rendezvous = kNone;
  std::string message;  // Names rule, rank, lane, tasks, buffer.
};

std::optional<Violation> Verify(const TaskGraph& graph);

// For every task, the last task of each lane of its own rank that is certain to have finished
// before it starts (position in the lane + 1; 0 = none): row-major [task][kLaneCount].
// Shared by verifier and arena pass.
std::vector<std::uint32_t> VectorClocks(const TaskGraph& graph);
// Position of each task in its lane (of its rank), counted from 0.
std::vector<std::uint32_t> LanePositions(const TaskGraph& graph);

}  // namespace twinstep
