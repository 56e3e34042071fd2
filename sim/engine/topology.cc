#include "sim/engine/topology.h"

#include <array>
#include <string>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

Error BadGraph(TaskId id, const std::string& what) {
  Error error;
  error.message = StrCat("task ", id, ": ", what);
  return error;
}

}  // namespace

Result<Topology> BuildTopology(const TaskGraph& graph, const GraphCosts& costs) {
  const std::uint32_t task_count = graph.TaskCount();
  const auto rank_count = static_cast<std::uint32_t>(graph.ranks.size());
  const auto rendezvous_count = static_cast<std::uint32_t>(graph.rendezvous.size());
  if (costs.cost_of_task.size() != task_count) {
    return Error{.message = StrCat("costs of ", costs.cost_of_task.size(),
                                   " tasks do not fit a graph of ", task_count)};
  }
  if (task_count > 0 && graph.edges.m_forward.m_rowstart.size() != task_count + 1) {
    return Error{.message = StrCat("edges are not frozen for a graph of ", task_count, " tasks")};
  }

  Topology topology;
  topology.rank_begin.assign(rank_count + 1, task_count);
  topology.next_in_lane.assign(task_count, kNone);
  topology.rendezvous_begin.assign(rendezvous_count + 1, 0);
  std::array<TaskId, kLaneCount> last{};
  RankId next_rank = 0;  // The first rank whose begin is not known yet.
  for (TaskId id = 0; id < task_count; ++id) {
    const Task& task = graph.tasks[id];
    if (task.rank >= rank_count) return BadGraph(id, StrCat("rank ", task.rank, " is unknown"));
    if (task.rank + 1 < next_rank) return BadGraph(id, "tasks are not stored rank by rank");
    if (task.rank >= next_rank) {
      while (next_rank <= task.rank) topology.rank_begin[next_rank++] = id;
      last.fill(kNone);
    }
    const auto lane = static_cast<std::size_t>(task.lane);
    if (lane >= last.size()) return BadGraph(id, StrCat("lane ", lane, " is unknown"));
    if (static_cast<int>(task.kind) >= kTaskKindCount) {
      return BadGraph(id, StrCat("kind ", static_cast<int>(task.kind), " is unknown"));
    }
    if (last[lane] != kNone) topology.next_in_lane[last[lane]] = id;
    last[lane] = id;
    if (costs.cost_of_task[id] >= costs.costs.size()) {
      return BadGraph(id, StrCat("cost ", costs.cost_of_task[id], " is unknown"));
    }
    if (task.rendezvous != kNone) {
      if (task.rendezvous >= rendezvous_count) {
        return BadGraph(id, StrCat("rendezvous ", task.rendezvous, " is unknown"));
      }
      ++topology.rendezvous_begin[task.rendezvous + 1];
    }
  }

  for (RendezvousId id = 0; id < rendezvous_count; ++id) {
    const std::uint32_t members = topology.rendezvous_begin[id + 1];
    if (members > graph.rendezvous[id].participants) {
      return Error{.message =
                       StrCat("rendezvous ", id, " takes ", graph.rendezvous[id].participants,
                              " tasks, ", members, " join it")};
    }
    topology.rendezvous_begin[id + 1] += topology.rendezvous_begin[id];
  }
  topology.rendezvous_tasks.resize(topology.rendezvous_begin[rendezvous_count]);
  std::vector<std::uint32_t> next(topology.rendezvous_begin.begin(),
                                  topology.rendezvous_begin.end() - 1);
  for (TaskId id = 0; id < task_count; ++id) {
    const RendezvousId rendezvous = graph.tasks[id].rendezvous;
    if (rendezvous != kNone) topology.rendezvous_tasks[next[rendezvous]++] = id;
  }
  return topology;
}

Result<std::vector<std::uint32_t>> CountPredecessors(const TaskGraph& graph,
                                                     const Topology& topology) {
  const std::uint32_t task_count = graph.TaskCount();
  std::vector<std::uint32_t> count(task_count, 0);
  for (TaskId id = 0; id < task_count; ++id) {
    for (const TaskId next : graph.Successors(id)) {
      if (next >= task_count) return BadGraph(id, StrCat("edge to unknown task ", next));
      ++count[next];
    }
    if (topology.next_in_lane[id] != kNone) ++count[topology.next_in_lane[id]];
  }
  return count;
}

}  // namespace twinstep
