#include "exec/runtime/stall_report.h"

#include <array>
#include <string>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

// More would hide the first ones.
constexpr std::size_t kMostTasks = 8;

struct Waiting {
  TaskId task = kNone;
  TaskId for_task = kNone;  // A predecessor that is not done; kNone if the task could run.
};

// First task of each rank and lane that is not done.
std::vector<Waiting> LaneHeads(const TaskGraph& graph, const Backend& backend) {
  std::vector<TaskId> unfinished_predecessor(graph.tasks.size(), kNone);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (backend.Finished(id)) continue;
    for (const TaskId next : graph.Successors(id)) {
      if (unfinished_predecessor[next] == kNone) unfinished_predecessor[next] = id;
    }
  }
  std::vector<Waiting> heads;
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    std::array<bool, kLaneCount> seen{};
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      bool& lane_seen = seen[static_cast<std::size_t>(graph.tasks[id].lane)];
      if (lane_seen || backend.Finished(id)) continue;
      lane_seen = true;
      heads.push_back({id, unfinished_predecessor[id]});
    }
  }
  return heads;
}

std::string Describe(const TaskGraph& graph, TaskId id) {
  return StrCat("rank ", graph.ranks[graph.tasks[id].rank].global_rank, ", lane ",
                Name(graph.tasks[id].lane), ": task ", id, " (", graph.TaskName(id), ")");
}

}  // namespace

Error StallError(const Program& program, const Backend& backend, double stalled_s) {
  const TaskGraph& graph = *program.graph;
  Error error{.code = ExitCode::kInternal, .rule = "stall"};
  std::size_t done = 0;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) done += backend.Finished(id) ? 1 : 0;
  error.message = StrCat("stall: no task has finished for ", stalled_s, " s, ", done, " of ",
                         graph.tasks.size(), " are done");
  std::size_t listed = 0;
  const std::vector<Waiting> heads = LaneHeads(graph, backend);
  std::vector<bool> can_run(graph.tasks.size(), false);
  for (const Waiting& head : heads) can_run[head.task] = head.for_task == kNone;
  for (const Waiting& head : heads) {
    if (head.for_task != kNone) continue;
    std::string reason = " does not end";
    const RendezvousId rendezvous = graph.tasks[head.task].rendezvous;
    if (rendezvous != kNone) {
      TaskId missing = kNone;
      for (const TaskId member : program.Members(rendezvous)) {
        if (!can_run[member] && missing == kNone) missing = member;
      }
      if (missing != kNone) {
        reason = StrCat(" waits in rendezvous ", rendezvous, " for ", Describe(graph, missing));
      }
    }
    if (listed++ == 0) error.rank = graph.ranks[graph.tasks[head.task].rank].global_rank;
    if (listed <= kMostTasks) {
      error.message += StrCat("; ", Describe(graph, head.task), reason);
    }
  }
  if (listed > kMostTasks) error.message += StrCat("; and ", listed - kMostTasks, " more");
  return error;
}

}  // namespace twinstep
