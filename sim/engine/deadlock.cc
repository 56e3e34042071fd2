#include "sim/engine/deadlock.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

std::string Describe(const TaskGraph& graph, TaskId id) {
  if (graph.tasks[id].shape >= graph.shapes.size()) return StrCat("task ", id);
  return StrCat("task ", id, " (", graph.TaskName(id), ")");
}

// By task that is not done, a predecessor that is not done; kNone if there is none.
std::vector<TaskId> UnfinishedPredecessors(const TaskGraph& graph, const Topology& topology,
                                           std::span<const Picoseconds> end_ps) {
  std::vector<TaskId> predecessor(graph.TaskCount(), kNone);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (end_ps[id] != kNotDone) continue;
    for (const TaskId next : graph.Successors(id)) predecessor[next] = id;
    if (topology.next_in_lane[id] != kNone) predecessor[topology.next_in_lane[id]] = id;
  }
  return predecessor;
}

// The error of a task: where it is, then what happens to it.
Error MakeError(const TaskGraph& graph, TaskId id, const std::string& what) {
  const std::uint32_t rank = graph.ranks[graph.tasks[id].rank].global_rank;
  Error error;
  error.code = ExitCode::kNo;
  error.rule = "deadlock";
  error.rank = rank;
  error.message = StrCat("deadlock: rank ", rank, ", lane ", Name(graph.tasks[id].lane), ": ",
                         Describe(graph, id), what);
  return error;
}

Error CircleError(const TaskGraph& graph, const std::vector<TaskId>& predecessor, TaskId start) {
  // Unfinished predecessors lead into a circle sooner or later.
  std::vector<bool> seen(graph.TaskCount(), false);
  TaskId first = start;
  for (; !seen[first]; first = predecessor[first]) seen[first] = true;
  constexpr int kShown = 8;
  std::string what = " waits in a circle for ";
  int shown = 0;
  for (TaskId id = predecessor[first]; id != first; id = predecessor[id]) {
    if (++shown > kShown) {
      what += "others, which wait for ";
      break;
    }
    what += Describe(graph, id) + ", which waits for ";
  }
  return MakeError(graph, first, what + Describe(graph, first));
}

}  // namespace

Error DeadlockError(const TaskGraph& graph, const Topology& topology,
                    std::span<const std::uint32_t> pending, std::span<const Picoseconds> end_ps) {
  TaskId waiting = kNone;
  TaskId blocked = kNone;
  for (TaskId id = 0; id < graph.TaskCount() && waiting == kNone; ++id) {
    if (end_ps[id] != kNotDone) continue;
    if (blocked == kNone) blocked = id;
    if (pending[id] == 0) waiting = id;
  }
  const std::vector<TaskId> predecessor = UnfinishedPredecessors(graph, topology, end_ps);
  if (waiting == kNone) return CircleError(graph, predecessor, blocked);

  const RendezvousId rendezvous = graph.tasks[waiting].rendezvous;
  const auto members = topology.Members(rendezvous);
  const std::uint32_t participants = graph.rendezvous[rendezvous].participants;
  std::string what = StrCat(" waits at rendezvous ", rendezvous, " of ", participants, " tasks");
  if (members.size() < participants) {
    what += StrCat("; ", participants - members.size(), " of them are not in the graph");
  }
  constexpr std::uint32_t kShown = 4;
  std::uint32_t missing = 0;
  for (const TaskId member : members) {
    if (pending[member] == 0 || ++missing > kShown) continue;
    what += StrCat("; missing: ", Describe(graph, member));
    const TaskId before = predecessor[member];
    if (before == kNone) continue;
    what += StrCat(", behind ", Describe(graph, before));
    const RendezvousId held = graph.tasks[before].rendezvous;
    if (held != kNone) what += StrCat(" of rendezvous ", held);
  }
  if (missing > kShown) what += StrCat("; and ", missing - kShown, " more");
  return MakeError(graph, waiting, what);
}

}  // namespace twinstep
