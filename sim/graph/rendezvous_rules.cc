#include "sim/graph/rendezvous_rules.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/describe.h"

namespace twinstep {
namespace {

using MaybeViolation = std::optional<Violation>;

std::string Number(std::uint64_t value) { return std::to_string(value); }

Violation Incomplete(const TaskGraph& graph, RendezvousId id, TaskId task,
                     const std::string& what) {
  Violation violation;
  violation.rule = Rule::kRendezvousIncomplete;
  violation.first = task;
  violation.rendezvous = id;
  violation.message = std::string(Name(Rule::kRendezvousIncomplete)) + ": rendezvous " + Number(id);
  if (task != kNone) violation.message += ", joined by " + DescribeTask(graph, task) + ",";
  violation.message += " " + what;
  return violation;
}

// Classes of the members of each group, sorted.
std::vector<std::vector<std::uint32_t>> MemberClasses(const TaskGraph& graph) {
  std::vector<std::vector<std::uint32_t>> classes(graph.groups.size());
  for (std::size_t i = 0; i < graph.groups.size(); ++i) {
    for (const std::uint32_t member : graph.groups[i].members) {
      classes[i].push_back(graph.rank_class[member]);
    }
    std::sort(classes[i].begin(), classes[i].end());
  }
  return classes;
}

// What has joined a rendezvous so far.
struct Joined {
  std::uint32_t count = 0;
  std::uint32_t sends = 0;
  TaskId first = kNone, last = kNone;
};

bool SameWork(const OpShape& a, const OpShape& b) { return a.dtype == b.dtype && a.dims == b.dims; }

}  // namespace

MaybeViolation CheckRendezvousComplete(const TaskGraph& graph) {
  const std::vector<std::vector<std::uint32_t>> member_classes = MemberClasses(graph);
  std::vector<Joined> joined(graph.rendezvous.size());
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    const Task& task = graph.tasks[id];
    if (task.rendezvous == kNone) continue;
    Joined& state = joined[task.rendezvous];
    const GroupId group = graph.rendezvous[task.rendezvous].group;
    if (group != kNone && !std::binary_search(member_classes[group].begin(),
                                              member_classes[group].end(), task.rank)) {
      return Incomplete(graph, task.rendezvous, id,
                        "is of group " + Number(group) + ", which has no rank for this task");
    }
    if (state.count == 0) {
      state.first = id;
    } else {
      const Task& first = graph.tasks[state.first];
      // A rank's tasks are contiguous, so a rank that joins twice does so without another between.
      if (graph.tasks[state.last].rank == task.rank) {
        return Incomplete(
            graph, task.rendezvous, id,
            "is joined by the same rank in " + DescribeTask(graph, state.last) + " too");
      }
      const bool collective = task.kind == TaskKind::kCollective;
      const OpShape& shape = graph.shapes[task.shape];
      const OpShape& first_shape = graph.shapes[first.shape];
      if (collective != (first.kind == TaskKind::kCollective) || !SameWork(shape, first_shape) ||
          (collective && shape.op != first_shape.op)) {
        return Incomplete(graph, task.rendezvous, id,
                          "does not fit " + DescribeTask(graph, state.first) +
                              ": another operation, dtype or size");
      }
    }
    state.last = id;
    ++state.count;
    if (task.kind == TaskKind::kSend) ++state.sends;
  }
  for (RendezvousId id = 0; id < graph.rendezvous.size(); ++id) {
    const Rendezvous& rendezvous = graph.rendezvous[id];
    const Joined& state = joined[id];
    if (state.count != rendezvous.participants) {
      return Incomplete(graph, id, state.first,
                        "has " + Number(state.count) + " of " + Number(rendezvous.participants) +
                            " participants");
    }
    if (graph.tasks[state.first].kind != TaskKind::kCollective) {
      if (state.count != 2 || state.sends != 1) {
        return Incomplete(graph, id, state.first,
                          "has " + Number(state.sends) + " sends and " +
                              Number(state.count - state.sends) + " receives, not one of each");
      }
    } else if (!graph.IsFolded() && rendezvous.group != kNone &&
               graph.groups[rendezvous.group].members.size() != state.count) {
      return Incomplete(graph, id, state.first,
                        "has " + Number(state.count) + " participants, its group " +
                            Number(graph.groups[rendezvous.group].members.size()) + " members");
    }
  }
  return std::nullopt;
}

namespace {

// The union of the ranks' issue orders, each rendezvous contracted to one node.
class RendezvousGraph {
 public:
  explicit RendezvousGraph(const TaskGraph& graph)
      : graph_(graph),
        previous_(graph.tasks.size(), kNone),
        next_(graph.tasks.size(), kNone),
        begin_(graph.rendezvous.size() + 1, 0) {
    TaskId last = kNone;
    for (TaskId id = 0; id < graph.tasks.size(); ++id) {
      const Task& task = graph.tasks[id];
      if (task.rendezvous == kNone) continue;
      ++begin_[task.rendezvous + 1];
      if (last != kNone && graph.tasks[last].rank == task.rank) {
        previous_[id] = last;
        next_[last] = id;
      }
      last = id;
    }
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    members_.resize(begin_.back());
    std::vector<std::uint32_t> place(begin_.begin(), begin_.end() - 1);
    for (TaskId id = 0; id < graph.tasks.size(); ++id) {
      if (graph.tasks[id].rendezvous != kNone) members_[place[graph.tasks[id].rendezvous]++] = id;
    }
  }

  // Pairs (a, b): b joins a rendezvous of a cycle, a is issued before it by the same rank and joins
  // the one before on the cycle. Empty without a cycle.
  std::vector<std::pair<TaskId, TaskId>> FindCycle() const {
    const std::vector<bool> stuck = Stuck();
    const auto start = std::find(stuck.begin(), stuck.end(), true);
    if (start == stuck.end()) return {};
    // A stuck node has a stuck predecessor, so this walk comes back to where it was.
    std::vector<std::uint32_t> step_of(stuck.size(), kNone);
    std::vector<std::pair<TaskId, TaskId>> walk;
    auto node = static_cast<RendezvousId>(start - stuck.begin());
    while (step_of[node] == kNone) {
      step_of[node] = static_cast<std::uint32_t>(walk.size());
      for (std::uint32_t i = begin_[node]; i < begin_[node + 1]; ++i) {
        const TaskId before = previous_[members_[i]];
        if (before != kNone && stuck[graph_.tasks[before].rendezvous]) {
          walk.emplace_back(before, members_[i]);
          node = graph_.tasks[before].rendezvous;
          break;
        }
      }
    }
    walk.erase(walk.begin(), walk.begin() + step_of[node]);
    std::reverse(walk.begin(), walk.end());
    return walk;
  }

 private:
  // Rendezvous that can never start (on a cycle or behind one): what Kahn's algorithm leaves.
  std::vector<bool> Stuck() const {
    const std::size_t count = begin_.size() - 1;
    std::vector<std::uint32_t> waits(count, 0);
    std::vector<RendezvousId> ready;
    std::vector<bool> stuck(count, true);
    for (RendezvousId node = 0; node < count; ++node) {
      for (std::uint32_t i = begin_[node]; i < begin_[node + 1]; ++i) {
        if (previous_[members_[i]] != kNone) ++waits[node];
      }
      if (waits[node] == 0) ready.push_back(node);
    }
    while (!ready.empty()) {
      const RendezvousId node = ready.back();
      ready.pop_back();
      stuck[node] = false;
      for (std::uint32_t i = begin_[node]; i < begin_[node + 1]; ++i) {
        const TaskId after = next_[members_[i]];
        if (after != kNone && --waits[graph_.tasks[after].rendezvous] == 0) {
          ready.push_back(graph_.tasks[after].rendezvous);
        }
      }
    }
    return stuck;
  }

  const TaskGraph& graph_;
  std::vector<TaskId> previous_, next_;  // By task: its neighbours in the rank's issue order.
  std::vector<std::uint32_t> begin_;     // By rendezvous, into members_.
  std::vector<TaskId> members_;
};

}  // namespace

MaybeViolation CheckRendezvousOrder(const TaskGraph& graph) {
  const std::vector<std::pair<TaskId, TaskId>> cycle = RendezvousGraph(graph).FindCycle();
  if (cycle.empty()) return std::nullopt;
  Violation violation;
  violation.rule = Rule::kRendezvousCycle;
  violation.first = cycle.front().first;
  violation.second = cycle.front().second;
  violation.rendezvous = graph.tasks[violation.first].rendezvous;
  violation.message = std::string(Name(Rule::kRendezvousCycle)) +
                      ": the ranks' issue orders contradict each other:";
  constexpr std::size_t kShown = 8;  // Of a long cycle the first steps tell enough.
  for (std::size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
    const auto& [before, after] = cycle[i];
    violation.message += std::string(i == 0 ? " " : "; ") + "rank " +
                         Number(graph.ranks[graph.tasks[before].rank].global_rank) + " issues " +
                         DescribeTask(graph, before) + " of rendezvous " +
                         Number(graph.tasks[before].rendezvous) + " before " +
                         DescribeTask(graph, after) + " of rendezvous " +
                         Number(graph.tasks[after].rendezvous);
  }
  if (cycle.size() > kShown) {
    violation.message += "; and " + Number(cycle.size() - kShown) + " more steps";
  }
  return violation;
}

}  // namespace twinstep
