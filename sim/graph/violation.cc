#include "sim/graph/violation.h"

namespace twinstep {

const char* Name(Rule rule) {
  switch (rule) {
    case Rule::kStructure:
      return "structure";
    case Rule::kCycle:
      return "cycle";
    case Rule::kIssueOrder:
      return "issue-order";
    case Rule::kReadBeforeWrite:
      return "read-before-write";
    case Rule::kHazard:
      return "hazard";
    case Rule::kRendezvousIncomplete:
      return "rendezvous-incomplete";
    case Rule::kRendezvousCycle:
      return "rendezvous-cycle";
  }
  return "invalid";
}

}  // namespace twinstep
