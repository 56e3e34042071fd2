// What is wrong with a task graph: the rule that it breaks, and where.
#pragma once

#include <string>

#include "sim/graph/ids.h"

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
// Stable names: "structure", "cycle", "issue-order", "read-before-write", "hazard",
// "rendezvous-incomplete", "rendezvous-cycle".
const char* Name(Rule rule);

struct Violation {
  Rule rule = Rule::kStructure;
  TaskId first = kNone, second = kNone;  // The tasks concerned.
  BufferId buffer = kNone;
  RendezvousId rendezvous = kNone;
  std::string message;  // Names rule, rank, lane, tasks, buffer.
};

}  // namespace twinstep
