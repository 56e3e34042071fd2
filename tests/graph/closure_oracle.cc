#include "tests/graph/closure_oracle.h"

#include <array>

namespace twinstep {

ClosureOracle::ClosureOracle(const TaskGraph& graph)
    : graph_(graph),
      accesses_(graph.buffers.size()),
      next_in_lane_(graph.tasks.size(), kNone),
      predecessors_(graph.tasks.size()) {
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const Operand& x : graph.Reads(id)) accesses_[x.buffer].push_back({id, false});
    for (const Operand& x : graph.Writes(id)) accesses_[x.buffer].push_back({id, true});
    for (const TaskId next : graph.Successors(id)) predecessors_[next].push_back(id);
  }
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    std::array<TaskId, kLaneCount> last;
    last.fill(kNone);
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      TaskId& before = last[static_cast<std::size_t>(graph.tasks[id].lane)];
      if (before != kNone) next_in_lane_[before] = id;
      before = id;
    }
  }
}

std::vector<bool> ClosureOracle::Reach(TaskId from, TaskId without_source,
                                       TaskId without_target) const {
  const RankId rank = graph_.tasks[from].rank;
  const TaskId first = graph_.rank_begin[rank];
  std::vector<bool> reached(graph_.rank_begin[rank + 1] - first, false);
  std::vector<TaskId> open = {from};
  reached[from - first] = true;
  while (!open.empty()) {
    const TaskId id = open.back();
    open.pop_back();
    for (const TaskId next : graph_.Successors(id)) {
      if (reached[next - first] || (id == without_source && next == without_target)) continue;
      reached[next - first] = true;
      open.push_back(next);
    }
  }
  return reached;
}

std::vector<bool> ClosureOracle::ReachBackward(TaskId from) const {
  const RankId rank = graph_.tasks[from].rank;
  const TaskId first = graph_.rank_begin[rank];
  std::vector<bool> reached(graph_.rank_begin[rank + 1] - first, false);
  std::vector<TaskId> open = {from};
  reached[from - first] = true;
  while (!open.empty()) {
    const TaskId id = open.back();
    open.pop_back();
    for (const TaskId before : predecessors_[id]) {
      if (reached[before - first]) continue;
      reached[before - first] = true;
      open.push_back(before);
    }
  }
  return reached;
}

std::vector<TaskId> ClosureOracle::MustFollow(TaskId task) const {
  std::vector<TaskId> later;
  if (next_in_lane_[task] != kNone) later.push_back(next_in_lane_[task]);
  const auto collect = [&](const Operand& x, bool writes) {
    for (const Access& access : accesses_[x.buffer]) {
      if (access.task > task && (writes || access.writes)) later.push_back(access.task);
    }
  };
  for (const Operand& x : graph_.Reads(task)) collect(x, false);
  for (const Operand& x : graph_.Writes(task)) collect(x, true);
  return later;
}

bool ClosureOracle::Precedes(TaskId before, TaskId after) const {
  const RankId rank = graph_.tasks[before].rank;
  return graph_.tasks[after].rank == rank && before != after &&
         Reach(before, kNone, kNone)[after - graph_.rank_begin[rank]];
}

bool ClosureOracle::IsNeeded(TaskId source, TaskId target) const {
  const TaskId first = graph_.rank_begin[graph_.tasks[source].rank];
  // Only paths over the edge can be lost: pairs (a, b) with a before the source, b after the
  // target. With another path from source to target none is.
  if (Reach(source, source, target)[target - first]) return false;
  const std::vector<bool> before = ReachBackward(source);
  const std::vector<bool> after = Reach(target, kNone, kNone);
  for (TaskId a = source + 1; a-- > first;) {
    if (!before[a - first]) continue;
    std::vector<bool> still;  // What `a` reaches without the edge.
    for (const TaskId b : MustFollow(a)) {
      if (!after[b - first]) continue;
      if (still.empty()) still = Reach(a, source, target);
      if (!still[b - first]) return true;
    }
  }
  return false;
}

}  // namespace twinstep
