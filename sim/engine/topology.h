// What the engines derive from a graph before a replay, and the checks that let them trust it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

struct Topology {
  std::vector<std::uint32_t> rank_begin;  // ranks + 1 entries.
  // The next task of the same lane and rank, kNone for the last. A lane is a FIFO in id order even
  // where its edges are missing: whoever counts predecessors counts this one too.
  std::vector<TaskId> next_in_lane;
  std::vector<std::uint32_t> rendezvous_begin;  // rendezvous + 1 entries.
  std::vector<TaskId> rendezvous_tasks;         // By id within a rendezvous.

  std::span<const TaskId> Members(RendezvousId id) const {
    return {rendezvous_tasks.data() + rendezvous_begin[id],
            rendezvous_begin[id + 1] - rendezvous_begin[id]};
  }
};

// Whether several ranks meet: those of its group, of which a folded graph has representatives.
inline bool IsOfSeveralRanks(const TaskGraph& graph, RendezvousId id) {
  const Rendezvous& rendezvous = graph.rendezvous[id];
  return rendezvous.participants > 1 || (rendezvous.group < graph.groups.size() &&
                                         graph.groups[rendezvous.group].members.size() > 1);
}

// Error (kBadInput) where an index is out of range, tasks are not stored rank by rank, a task has
// no cost, or more tasks join a rendezvous than it takes.
Result<Topology> BuildTopology(const TaskGraph& graph, const GraphCosts& costs);

// Predecessors of every task: edges, and the one before it in its lane. Error (kBadInput) where an
// edge leads to a task that does not exist.
Result<std::vector<std::uint32_t>> CountPredecessors(const TaskGraph& graph,
                                                     const Topology& topology);

}  // namespace twinstep
