// The rules of the verifier that look across ranks.
#pragma once

#include <optional>

#include "sim/graph/task_graph.h"
#include "sim/graph/violation.h"

namespace twinstep {

// Rule::kRendezvousIncomplete: every rendezvous is joined by as many tasks as it says, of different
// ranks that belong to its group (in a folded graph: that represent a member), and they agree on
// what they do: one SEND and one RECV of the same bytes, or collectives of one operation and shape.
// The graph must pass CheckStructure.
std::optional<Violation> CheckRendezvousComplete(const TaskGraph& graph);

// Rule::kRendezvousCycle: a global order of all rendezvous exists that agrees with the issue order
// of every rank over all its lanes. Without it ranks can wait for each other for ever. The graph
// must pass CheckStructure.
std::optional<Violation> CheckRendezvousOrder(const TaskGraph& graph);

}  // namespace twinstep
