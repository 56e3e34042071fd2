#include "exec/profile/meetings.h"

#include <algorithm>
#include <set>

namespace twinstep {
namespace {

// By rendezvous, in the order of its group.
std::vector<std::vector<TaskId>> TasksOfRendezvous(const TaskGraph& graph) {
  std::vector<std::vector<TaskId>> tasks(graph.rendezvous.size());
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const RendezvousId rendezvous = graph.tasks[id].rendezvous;
    if (rendezvous != kNone) tasks[rendezvous].push_back(id);
  }
  for (RendezvousId rendezvous = 0; rendezvous < tasks.size(); ++rendezvous) {
    const GroupId group = graph.rendezvous[rendezvous].group;
    if (group == kNone) continue;
    std::ranges::sort(tasks[rendezvous], {}, [&](TaskId id) {
      const std::uint32_t rank = graph.ranks[graph.tasks[id].rank].global_rank;
      const std::vector<std::uint32_t>& members = graph.groups[group].members;
      return std::ranges::find(members, rank) - members.begin();
    });
  }
  return tasks;
}

}  // namespace

Meetings FindMeetings(const std::vector<TaskGraph>& graphs,
                      const std::function<bool(const Primitive&)>& is_wanted) {
  Meetings meetings;
  std::set<Primitive> seen;
  for (const TaskGraph& graph : graphs) {
    const std::vector<std::vector<TaskId>> tasks = TasksOfRendezvous(graph);
    for (RendezvousId rendezvous = 0; rendezvous < tasks.size(); ++rendezvous) {
      const GroupId group = graph.rendezvous[rendezvous].group;
      if (group == kNone || graph.groups[group].members.size() < 2) continue;
      auto& of_size = meetings[static_cast<std::uint32_t>(graph.groups[group].members.size())];
      for (const TaskId id : tasks[rendezvous]) {
        const auto primitive = PrimitiveOf(graph, id);
        if (!primitive || !is_wanted(*primitive) || !seen.insert(*primitive).second) continue;
        of_size.push_back({.graph = &graph, .tasks = tasks[rendezvous]});
      }
    }
  }
  return meetings;
}

}  // namespace twinstep
