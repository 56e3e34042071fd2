#include "sim/engine/longest_path.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/deadlock.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

class LongestPath {
 public:
  LongestPath(const TaskGraph& graph, const GraphCosts& costs, const CostTable& table,
              const Topology& topology, std::vector<std::uint32_t> pending)
      : graph_(graph),
        costs_(costs),
        table_(table),
        topology_(topology),
        pending_(std::move(pending)),
        meetings_(graph.rendezvous.size()) {
    replay_.start_ps.resize(graph.tasks.size());
    replay_.end_ps.resize(graph.tasks.size(), kNotDone);
    replay_.ready_ps.resize(graph.tasks.size());
  }

  Result<Replay> Run() {
    // Tasks without predecessors, last first: the walk then goes through rank after rank as far as
    // it gets.
    for (TaskId id = graph_.TaskCount(); id-- > 0;) {
      if (pending_[id] == 0) released_.push_back(id);
    }
    while (!released_.empty()) {
      const TaskId id = released_.back();
      released_.pop_back();
      Arrive(id);
    }
    if (overflow_) {
      return Error{.message = StrCat("the replay lasts more than ", kMaxTime, " ps")};
    }
    if (done_ < graph_.TaskCount()) {
      return DeadlockError(graph_, topology_, pending_, replay_.end_ps);
    }
    return std::move(replay_);
  }

 private:
  struct Meeting {
    std::uint32_t arrived = 0;
    Picoseconds ready = 0, duration = 0;
  };

  void Arrive(TaskId id) {
    const RendezvousId rendezvous = graph_.tasks[id].rendezvous;
    const Picoseconds ready = replay_.ready_ps[id];
    const Picoseconds duration = table_.alone_ps[costs_.cost_of_task[id]];
    if (rendezvous == kNone) {
      Finish(id, ready, ready + duration);
      return;
    }
    Meeting& meeting = meetings_[rendezvous];
    meeting.ready = std::max(meeting.ready, ready);
    meeting.duration = std::max(meeting.duration, duration);
    if (++meeting.arrived < graph_.rendezvous[rendezvous].participants) return;
    for (const TaskId member : topology_.Members(rendezvous)) {
      Finish(member, meeting.ready, meeting.ready + meeting.duration);
    }
  }

  void Finish(TaskId id, Picoseconds start, Picoseconds end) {
    if (end > kMaxTime) {
      // Later sums stay in range, too.
      overflow_ = true;
      end = kMaxTime;
    }
    replay_.start_ps[id] = start;
    replay_.end_ps[id] = end;
    replay_.makespan_ps = std::max(replay_.makespan_ps, end);
    ++done_;
    for (const TaskId next : graph_.Successors(id)) Release(next, end);
    const TaskId next = topology_.next_in_lane[id];
    if (next != kNone) Release(next, end);
  }

  void Release(TaskId next, Picoseconds at) {
    replay_.ready_ps[next] = std::max(replay_.ready_ps[next], at);
    if (--pending_[next] == 0) released_.push_back(next);
  }

  const TaskGraph& graph_;
  const GraphCosts& costs_;
  const CostTable& table_;
  const Topology& topology_;
  std::vector<std::uint32_t> pending_;
  std::vector<Meeting> meetings_;
  Replay replay_;
  std::vector<TaskId> released_;
  std::uint32_t done_ = 0;
  bool overflow_ = false;
};

}  // namespace

Result<Replay> ReplayLongestPath(const TaskGraph& graph, const GraphCosts& costs,
                                 const CostTable& table, const Topology& topology) {
  Result<std::vector<std::uint32_t>> pending = CountPredecessors(graph, topology);
  if (!pending.ok()) return pending.error();
  return LongestPath(graph, costs, table, topology, std::move(pending).value()).Run();
}

}  // namespace twinstep
