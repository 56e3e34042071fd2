// Which collectives and messages of graphs are to be measured: one rendezvous of each kind.
//
//   const Meetings meetings = FindMeetings(graphs, [](const Primitive&) { return true; });
//   for (const auto& [members, of_size] : meetings) ...  // Smallest groups first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "exec/profile/primitive.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// A rendezvous.
struct Meeting {
  const TaskGraph* graph = nullptr;
  std::vector<TaskId> tasks;  // In the order of its group.
};

// By members, in the graphs' order: of each primitive that is wanted the first rendezvous. Groups
// of two members or more are there even where nothing of them is wanted. The graphs, unfolded, must
// outlive the result.
using Meetings = std::map<std::uint32_t, std::vector<Meeting>>;
Meetings FindMeetings(const std::vector<TaskGraph>& graphs,
                      const std::function<bool(const Primitive&)>& is_wanted);

}  // namespace twinstep
