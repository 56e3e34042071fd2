#include "sim/graph/fuse.h"

#include <utility>

namespace twinstep {
namespace {

bool IsComputation(const Task& task) {
  return task.lane == Lane::kCompute && task.kind == TaskKind::kCompute && task.rendezvous == kNone;
}

}  // namespace

FusedGraph Fuse(const TaskGraph& graph) {
  // Edges inside a compute lane say no more than its order, of which the fused graph keeps the
  // edges between neighbours; the others keep their ends apart from their neighbours.
  const auto in_compute_lane = [&graph](TaskId before, TaskId after) {
    return graph.tasks[before].lane == Lane::kCompute && graph.tasks[after].lane == Lane::kCompute;
  };
  std::vector<bool> waits_for_others(graph.tasks.size(), false);
  std::vector<bool> others_wait(graph.tasks.size(), false);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const TaskId next : graph.Successors(id)) {
      if (in_compute_lane(id, next)) continue;
      others_wait[id] = true;
      waits_for_others[next] = true;
    }
  }

  FusedGraph fused;
  TaskGraph& out = fused.graph;
  out.ranks = graph.ranks;
  out.groups = graph.groups;
  out.rendezvous = graph.rendezvous;
  out.shapes = graph.shapes;
  out.rank_class = graph.rank_class;

  // A fused task takes its first member's place in issue order; the members lie in one lane, so
  // list them run by run.
  std::vector<TaskId> fused_of(graph.tasks.size(), kNone);
  std::vector<TaskId> next_member(graph.tasks.size(), kNone);
  std::vector<TaskId> first_member;
  std::vector<std::pair<TaskId, TaskId>> edges;
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    out.rank_begin.push_back(static_cast<std::uint32_t>(out.tasks.size()));
    TaskId last = kNone;  // Of this rank's compute lane.
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      const Task& task = graph.tasks[id];
      const bool joins = last != kNone && IsComputation(task) && IsComputation(graph.tasks[last]) &&
                         !others_wait[last] && !waits_for_others[id];
      if (joins) {
        fused_of[id] = fused_of[last];
        next_member[last] = id;
      } else {
        fused_of[id] = static_cast<TaskId>(out.tasks.size());
        first_member.push_back(id);
        if (task.lane == Lane::kCompute && last != kNone) {
          edges.emplace_back(fused_of[last], fused_of[id]);
        }
        Task first = task;
        first.operand_begin = 0;
        first.read_count = first.write_count = 0;
        out.tasks.push_back(first);
      }
      if (task.lane == Lane::kCompute) last = id;
    }
  }
  out.rank_begin.push_back(static_cast<std::uint32_t>(out.tasks.size()));

  fused.members.reserve(graph.tasks.size());
  for (const TaskId first : first_member) {
    fused.member_begin.push_back(static_cast<std::uint32_t>(fused.members.size()));
    for (TaskId id = first; id != kNone; id = next_member[id]) fused.members.push_back(id);
  }
  fused.member_begin.push_back(static_cast<std::uint32_t>(fused.members.size()));

  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const TaskId next : graph.Successors(id)) {
      if (!in_compute_lane(id, next)) edges.emplace_back(fused_of[id], fused_of[next]);
    }
  }
  out.edges = FreezeEdges(out.TaskCount(), edges);
  return fused;
}

}  // namespace twinstep
