#include "sim/engine/critical_path.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "sim/engine/fixed_point.h"

namespace twinstep {
namespace {

struct FlowTime {
  Picoseconds alone_ps = 0;
  std::uint32_t link = kNone;
};

FlowTime TimeAlone(const GraphCosts& costs, const Flow& flow) {
  if (flow.bytes == 0) return {};
  double least_share = HUGE_VAL;
  FlowTime time;
  for (std::uint32_t i = 0; i < flow.hop_count; ++i) {
    const RouteHop& hop = costs.hops[flow.hop_begin + i];
    const double share = costs.links[hop.link].bytes_per_s / hop.multiplicity;
    if (share >= least_share) continue;
    least_share = share;
    time.link = hop.link;
  }
  // Caps come from links (a collective's efficiency times its narrowest one): a flow at its cap
  // counts for that link, which would make it faster if it were wider.
  const double cap = flow.max_bytes_per_s > 0 ? flow.max_bytes_per_s : HUGE_VAL;
  const double rate = std::min(cap, least_share);
  time.alone_ps = TimeFor(FlowWork(flow.bytes), ToFixedRate(rate));
  return time;
}

FlowTime SlowestFlow(const GraphCosts& costs, const TaskCost& cost) {
  FlowTime slowest;
  for (std::uint32_t i = 0; i < cost.flow_count; ++i) {
    const FlowTime time = TimeAlone(costs, costs.flows[cost.flow_begin + i]);
    if (time.alone_ps > slowest.alone_ps) slowest = time;
  }
  return slowest;
}

// What started or lengthened tasks, found in two passes over the graph.
class Causes {
 public:
  Causes(const TaskGraph& graph, const GraphCosts& costs, const Replay& replay)
      : latest_(graph.tasks.size(), kNone),
        from_lane_(graph.tasks.size(), false),
        last_ready_(graph.rendezvous.size(), kNone),
        slowest_(graph.rendezvous.size(), kNone) {
    std::vector<FlowTime> flow_time;
    for (const TaskCost& cost : costs.costs) flow_time.push_back(SlowestFlow(costs, cost));
    std::array<TaskId, kLaneCount> last{};
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      const Task& task = graph.tasks[id];
      if (id == 0 || graph.tasks[id - 1].rank != task.rank) last.fill(kNone);
      TaskId& before = last[static_cast<std::size_t>(task.lane)];
      if (before != kNone && replay.end_ps[before] == replay.ready_ps[id]) {
        latest_[id] = before;
        from_lane_[id] = true;
      }
      before = id;
      if (task.rendezvous == kNone) continue;
      TaskId& ready = last_ready_[task.rendezvous];
      if (ready == kNone || replay.ready_ps[id] > replay.ready_ps[ready]) ready = id;
      const auto alone = [&](TaskId member) {
        return costs.Of(member).fixed_ps + flow_time[costs.cost_of_task[member]].alone_ps;
      };
      TaskId& slowest = slowest_[task.rendezvous];
      if (slowest == kNone || alone(id) > alone(slowest)) slowest = id;
    }
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      for (const TaskId next : graph.Successors(id)) {
        if (latest_[next] == kNone && replay.end_ps[id] == replay.ready_ps[next]) {
          latest_[next] = id;
        }
      }
    }
  }

  // A predecessor that ended when the task became ready; kNone where it has none.
  TaskId Latest(TaskId id) const { return latest_[id]; }
  bool FromLane(TaskId id) const { return from_lane_[id]; }
  // The task itself where it has no rendezvous.
  TaskId LastReady(TaskId id, RendezvousId rendezvous) const {
    return rendezvous == kNone ? id : last_ready_[rendezvous];
  }
  TaskId Slowest(TaskId id, RendezvousId rendezvous) const {
    return rendezvous == kNone ? id : slowest_[rendezvous];
  }

 private:
  std::vector<TaskId> latest_;
  std::vector<bool> from_lane_;
  std::vector<TaskId> last_ready_, slowest_;
};

// Which tasks ended when, where tasks wait for worker threads.
class Threads {
 public:
  Threads(const GraphCosts& costs, const Replay& replay) : workers_(costs.workers) {
    if (workers_.threads == 0) return;
    for (TaskId id = 0; id < replay.end_ps.size(); ++id) {
      // What takes no time holds nobody up.
      if (replay.end_ps[id] > replay.start_ps[id]) ends_.emplace_back(replay.end_ps[id], id);
    }
    std::sort(ends_.begin(), ends_.end());
  }

  // The lowest task that ended when the thread of a task that started at `start` became free; kNone
  // if the task was ready at `ready` and had its thread at once.
  TaskId HeldBy(Picoseconds ready, Picoseconds start) const {
    if (workers_.threads == 0 || start - ready == workers_.dispatch_ps ||
        start - ready == workers_.wake_ps || start - ready == workers_.handoff_ps) {
      return kNone;
    }
    const Picoseconds taken = start - workers_.dispatch_ps;
    const auto at = std::lower_bound(ends_.begin(), ends_.end(), std::pair(taken, TaskId{0}));
    return at != ends_.end() && at->first == taken ? at->second : kNone;
  }

 private:
  const WorkerPool workers_;
  std::vector<std::pair<Picoseconds, TaskId>> ends_;
};

class Shares {
 public:
  void Add(const Task& task, std::uint32_t link, Picoseconds time, Picoseconds alone) {
    CriticalShare& share = shares_[{task.kind, task.lane, task.phase, link}];
    share.kind = task.kind;
    share.lane = task.lane;
    share.phase = task.phase;
    share.link = link;
    share.time_ps += time;
    share.slowed_ps += std::max<Picoseconds>(0, time - alone);
    ++share.tasks;
  }

  std::vector<CriticalShare> ByFallingTime() const {
    std::vector<CriticalShare> shares;
    for (const auto& [key, share] : shares_) shares.push_back(share);
    std::stable_sort(shares.begin(), shares.end(),
                     [](const auto& a, const auto& b) { return a.time_ps > b.time_ps; });
    return shares;
  }

 private:
  std::map<std::tuple<TaskKind, Lane, Phase, std::uint32_t>, CriticalShare> shares_;
};

}  // namespace

const char* Name(StartCause cause) {
  switch (cause) {
    case StartCause::kBegin:
      return "begin";
    case StartCause::kLane:
      return "lane";
    case StartCause::kData:
      return "data";
    case StartCause::kRendezvous:
      return "rendezvous";
    case StartCause::kThread:
      return "thread";
  }
  return "invalid";
}

CriticalPath FindCriticalPath(const TaskGraph& graph, const GraphCosts& costs,
                              const Replay& replay) {
  CriticalPath path;
  if (graph.tasks.empty()) return path;
  const Causes causes(graph, costs, replay);
  const Threads threads(costs, replay);
  Shares shares;
  const auto last = std::max_element(replay.end_ps.begin(), replay.end_ps.end());
  auto id = static_cast<TaskId>(last - replay.end_ps.begin());
  while (id != kNone) {
    const Task& task = graph.tasks[id];
    CriticalStep step{.task = id, .started_by = id};
    // The task itself, where it was as late as the last.
    if (replay.ready_ps[id] < replay.start_ps[id]) {
      step.started_by = causes.LastReady(id, task.rendezvous);
    }
    TaskId before = replay.start_ps[id] == 0 ? kNone : causes.Latest(step.started_by);
    const TaskId holder = threads.HeldBy(replay.ready_ps[step.started_by], replay.start_ps[id]);
    if (holder != kNone) {
      before = holder;
      step.cause = StartCause::kThread;
    } else if (before == kNone) {
      step.cause = StartCause::kBegin;
    } else if (step.started_by != id) {
      step.cause = StartCause::kRendezvous;
    } else {
      step.cause = causes.FromLane(id) ? StartCause::kLane : StartCause::kData;
    }
    path.steps.push_back(step);

    const Picoseconds time = replay.end_ps[id] - replay.start_ps[id];
    const Picoseconds begin = before == kNone ? 0 : replay.end_ps[before];
    const Picoseconds dispatch = replay.start_ps[id] - begin;
    const TaskCost& cost = costs.Of(causes.Slowest(id, task.rendezvous));
    const FlowTime flow = SlowestFlow(costs, cost);
    if (flow.alone_ps == 0) {
      // At high clocks a task takes less than alone.
      shares.Add(task, kNone, dispatch + time, dispatch + std::min(time, cost.fixed_ps));
    } else {
      const Picoseconds fixed = std::min(time, cost.fixed_ps);
      if (dispatch + fixed > 0) shares.Add(task, kNone, dispatch + fixed, dispatch + fixed);
      shares.Add(task, flow.link, time - fixed, flow.alone_ps);
    }
    id = before;
  }
  std::reverse(path.steps.begin(), path.steps.end());
  path.shares = shares.ByFallingTime();
  return path;
}

}  // namespace twinstep
