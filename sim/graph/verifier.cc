#include "sim/graph/verifier.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph/describe.h"
#include "sim/graph/rendezvous_rules.h"
#include "sim/graph/structure.h"

namespace twinstep {
namespace {

using MaybeViolation = std::optional<Violation>;

std::string Number(std::uint64_t value) { return std::to_string(value); }

Violation Broken(Rule rule, TaskId first, TaskId second, const std::string& what) {
  Violation violation;
  violation.rule = rule;
  violation.first = first;
  violation.second = second;
  violation.message = std::string(Name(rule)) + ": " + what;
  return violation;
}

// A cycle of edges, each task before the next and the last before the first. Empty without one.
std::vector<TaskId> FindCycle(const TaskGraph& graph) {
  const std::uint32_t count = graph.TaskCount();
  std::vector<std::uint32_t> waits(count, 0);
  for (TaskId id = 0; id < count; ++id) {
    for (const TaskId next : graph.Successors(id)) ++waits[next];
  }
  std::vector<TaskId> ready;
  for (TaskId id = 0; id < count; ++id) {
    if (waits[id] == 0) ready.push_back(id);
  }
  while (!ready.empty()) {
    const TaskId id = ready.back();
    ready.pop_back();
    for (const TaskId next : graph.Successors(id)) {
      if (--waits[next] == 0) ready.push_back(next);
    }
  }
  // What still waits is on a cycle or behind one, and has a predecessor that still waits too.
  std::vector<TaskId> before(count, kNone);
  TaskId id = kNone;
  for (TaskId source = 0; source < count; ++source) {
    if (waits[source] == 0) continue;
    for (const TaskId next : graph.Successors(source)) {
      before[next] = source;
      id = next;
    }
  }
  if (id == kNone) return {};
  std::vector<std::uint32_t> step_of(count, kNone);
  std::vector<TaskId> walk;
  for (; step_of[id] == kNone; id = before[id]) {
    step_of[id] = static_cast<std::uint32_t>(walk.size());
    walk.push_back(id);
  }
  walk.erase(walk.begin(), walk.begin() + step_of[id]);
  std::reverse(walk.begin(), walk.end());
  return walk;
}

// Edges lead forward in issue order. An edge that leads backward may close a cycle, which no order
// can satisfy, or only contradict this order: two different mistakes.
MaybeViolation CheckIssueOrder(const TaskGraph& graph) {
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    const auto successors = graph.Successors(id);
    if (successors.empty() || successors.front() > id) continue;  // Sorted: all lead forward.
    const std::vector<TaskId> cycle = FindCycle(graph);
    if (cycle.empty()) {
      const TaskId target = successors.front();
      return Broken(Rule::kIssueOrder, id, target,
                    DescribeTask(graph, id) + " must precede " + DescribeTask(graph, target) +
                        ", which its rank issues earlier");
    }
    std::string what = "tasks wait for each other: ";
    constexpr std::size_t kShown = 8;  // Of a long cycle the first steps tell enough.
    for (std::size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
      what += DescribeTask(graph, cycle[i]) + " before ";
    }
    if (cycle.size() > kShown) what += Number(cycle.size() - kShown) + " more before ";
    return Broken(Rule::kCycle, cycle.front(), cycle.back(), what + "the first");
  }
  return std::nullopt;
}

// What the order of tasks is known to be: task (lane, position) precedes `id`?
struct Order {
  std::vector<std::uint32_t> positions;
  std::vector<std::uint32_t> clocks;

  bool Precedes(Lane lane, std::uint32_t position, TaskId id) const {
    return clocks[std::size_t{id} * kLaneCount + static_cast<std::size_t>(lane)] > position;
  }
};

// Clocks count on each lane being a chain, so this comes before they are used. By induction over
// the issue order: if the lanes are chains up to here, then this task's clock of its own lane is
// its position exactly if its lane's previous task precedes it.
MaybeViolation CheckLaneOrder(const TaskGraph& graph, const Order& order) {
  std::array<TaskId, kLaneCount> last{};
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    const Task& task = graph.tasks[id];
    const auto lane = static_cast<std::size_t>(task.lane);
    const std::uint32_t position = order.positions[id];
    if (position > 0 && !order.Precedes(task.lane, position - 1, id)) {
      return Broken(Rule::kStructure, last[lane], id,
                    "no path orders the lane's tasks " + DescribeTask(graph, last[lane]) + " and " +
                        DescribeTask(graph, id));
    }
    last[lane] = id;
  }
  return std::nullopt;
}

// Walks the issue order and keeps, for each buffer, the last writer and the readers since. Older
// accesses need no look: each was ordered before one of these.
class HazardCheck {
 public:
  HazardCheck(const TaskGraph& graph, const Order& order)
      : graph_(graph), order_(order), states_(graph.buffers.size()) {
    accesses_.reserve(graph.operands.size());
  }

  MaybeViolation Run() {
    for (TaskId id = 0; id < graph_.tasks.size(); ++id) {
      for (const Operand& x : graph_.Reads(id)) {
        if (MaybeViolation bad = Read(id, x.buffer)) return bad;
      }
      for (const Operand& x : graph_.Writes(id)) {
        if (MaybeViolation bad = Write(id, x.buffer)) return bad;
      }
    }
    return std::nullopt;
  }

 private:
  struct Access {
    TaskId task = kNone;
    std::uint32_t position = 0;
    std::uint32_t next = kNone;  // Into accesses_: another reader of the same buffer.
    Lane lane = Lane::kCompute;
  };
  struct State {
    Access writer;
    std::uint32_t readers = kNone;  // Into accesses_; at most one a lane, the latest.
  };

  MaybeViolation Read(TaskId id, BufferId buffer) {
    State& state = states_[buffer];
    if (state.writer.task == kNone && !graph_.buffers[buffer].persistent) {
      Violation violation =
          Broken(Rule::kReadBeforeWrite, id, kNone,
                 DescribeTask(graph_, id) + " reads " + DescribeBuffer(graph_, buffer) +
                     " before any task wrote it");
      violation.buffer = buffer;
      return violation;
    }
    if (MaybeViolation bad = Require("RAW", state.writer, id, buffer)) return bad;
    Access access = Of(id);
    for (std::uint32_t i = state.readers; i != kNone; i = accesses_[i].next) {
      if (accesses_[i].lane == access.lane) {
        access.next = accesses_[i].next;
        accesses_[i] = access;
        return std::nullopt;
      }
    }
    access.next = state.readers;
    state.readers = static_cast<std::uint32_t>(accesses_.size());
    accesses_.push_back(access);
    return std::nullopt;
  }

  MaybeViolation Write(TaskId id, BufferId buffer) {
    State& state = states_[buffer];
    for (std::uint32_t i = state.readers; i != kNone; i = accesses_[i].next) {
      if (MaybeViolation bad = Require("WAR", accesses_[i], id, buffer)) return bad;
    }
    if (MaybeViolation bad = Require("WAW", state.writer, id, buffer)) return bad;
    state.writer = Of(id);
    state.readers = kNone;
    return std::nullopt;
  }

  Access Of(TaskId id) const {
    return {.task = id, .position = order_.positions[id], .lane = graph_.tasks[id].lane};
  }

  MaybeViolation Require(const char* hazard, const Access& earlier, TaskId id,
                         BufferId buffer) const {
    if (earlier.task == kNone || earlier.task == id) return std::nullopt;
    if (order_.Precedes(earlier.lane, earlier.position, id)) return std::nullopt;
    Violation violation =
        Broken(Rule::kHazard, earlier.task, id,
               std::string(hazard) + " on " + DescribeBuffer(graph_, buffer) + ": no path orders " +
                   DescribeTask(graph_, earlier.task) + " before " + DescribeTask(graph_, id));
    violation.buffer = buffer;
    return violation;
  }

  const TaskGraph& graph_;
  const Order& order_;
  std::vector<State> states_;  // By buffer.
  std::vector<Access> accesses_;
};

// Of tasks in issue order, rank after rank: how many of its lane came before each.
class LaneCounter {
 public:
  std::uint32_t Next(const Task& task) {
    if (task.rank != rank_) {
      rank_ = task.rank;
      length_.fill(0);
    }
    return length_[static_cast<std::size_t>(task.lane)]++;
  }

 private:
  std::array<std::uint32_t, kLaneCount> length_{};
  RankId rank_ = kNone;
};

}  // namespace

std::vector<std::uint32_t> LanePositions(const TaskGraph& graph) {
  std::vector<std::uint32_t> positions(graph.tasks.size());
  LaneCounter counter;
  for (TaskId id = 0; id < graph.tasks.size(); ++id) positions[id] = counter.Next(graph.tasks[id]);
  return positions;
}

std::vector<std::uint32_t> VectorClocks(const TaskGraph& graph) {
  std::vector<std::uint32_t> clocks(graph.tasks.size() * kLaneCount, 0);
  LaneCounter counter;
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    const Task& task = graph.tasks[id];
    // What holds once this task has finished; merged into each successor's clock.
    std::array<std::uint32_t, kLaneCount> after;
    std::copy_n(clocks.begin() + std::ptrdiff_t{id} * kLaneCount, kLaneCount, after.begin());
    after[static_cast<std::size_t>(task.lane)] = counter.Next(task) + 1;
    for (const TaskId next : graph.Successors(id)) {
      std::uint32_t* clock = clocks.data() + std::size_t{next} * kLaneCount;
      for (std::size_t i = 0; i < kLaneCount; ++i) clock[i] = std::max(clock[i], after[i]);
    }
  }
  return clocks;
}

MaybeViolation Verify(const TaskGraph& graph) {
  if (MaybeViolation bad = CheckStructure(graph)) return bad;
  if (MaybeViolation bad = CheckIssueOrder(graph)) return bad;
  const Order order{LanePositions(graph), VectorClocks(graph)};
  if (MaybeViolation bad = CheckLaneOrder(graph, order)) return bad;
  if (MaybeViolation bad = HazardCheck(graph, order).Run()) return bad;
  if (MaybeViolation bad = CheckRendezvousComplete(graph)) return bad;
  return CheckRendezvousOrder(graph);
}

}  // namespace twinstep
