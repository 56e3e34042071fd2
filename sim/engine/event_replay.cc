#include "sim/engine/event_replay.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/deadlock.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/interference.h"
#include "sim/engine/kernel_turns.h"
#include "sim/engine/lane_threads.h"
#include "sim/engine/max_min.h"
#include "sim/engine/wake_delay.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// What the rates on a rank depend on.
enum class Class : std::uint8_t { kCompute, kH2D, kCollective, kD2H, kHost };
constexpr int kClassCount = 5;

// One bit a class.
enum RankState : std::uint32_t {
  kComputeRuns = 1,
  kH2DRuns = 2,
  kCollectiveRuns = 4,
  kD2HRuns = 8,
  kHostRuns = 16,
  kRested = 32  // The GPU's clocks are high.
};

Class ClassOf(TaskKind kind) {
  switch (kind) {
    case TaskKind::kCompute:
      return Class::kCompute;
    case TaskKind::kH2D:
      return Class::kH2D;
    case TaskKind::kD2H:
      return Class::kD2H;
    case TaskKind::kSend:
    case TaskKind::kRecv:
    case TaskKind::kCollective:
      return Class::kCollective;
    case TaskKind::kHost:
      return Class::kHost;
  }
  return Class::kHost;
}

// Work in progress: a lane's fixed time or private flow, or one shared flow. It holds as of
// `last`, which lies ahead while a latency passes.
struct Activity {
  Work work = 0;
  FixedRate base = 1;  // At full speed.
  FixedRate rate = 1;
  Picoseconds last = 0;
  std::uint32_t slot = 0;
};

// What a lane of a rank runs.
struct Slot {
  // Whether its activity is the task's, or a delay before it starts.
  enum class Stage : std::uint8_t { kHandoff, kMeeting, kRuns };
  TaskId task = kNone;
  std::uint32_t open = 0;            // Activities that go on.
  std::uint32_t first_flow = kNone;  // Its shared flows, linked.
  Class task_class = Class::kHost;
  bool flows_started = false;
  Stage stage = Stage::kRuns;
  KernelTurn turn = KernelTurn::kNever;        // That it has, or waits for.
  Picoseconds rest_ps = 0;                     // Of a computation: what follows its turn.
  std::uint32_t cost = 0;                      // Of the task, or of the segment that runs.
  std::uint32_t segment = 0, segment_end = 0;  // Of a fused computation: segments to come.
};

struct Meeting {
  std::uint32_t missing = 0;  // Members not ready.
  std::uint32_t open = 0;     // Members that still work.
};

// How long a GPU that computes goes on at high clocks.
struct RankClocks {
  Picoseconds left_ps = 0;   // As of `since_ps`.
  Picoseconds since_ps = 0;  // Since then it does what `use` says.
  ClockUse use = ClockUse::kRests;
};

struct RankActivity {
  std::uint32_t running[kClassCount] = {};  // Tasks that run, by Class.
  std::uint32_t lanes = 0;                  // Bit set of lanes that run.
  std::uint32_t state = 0;                  // Of RankState, as the rates have it.
  bool dirty = false;
};

// Two engines in one source: what worker threads need costs replays without them nothing.
template <bool kHasWorkers>
class EventReplay {
 public:
  EventReplay(const TaskGraph& graph, const GraphCosts& costs, const CostTable& table,
              const Topology& topology, std::vector<std::uint32_t> pending)
      : graph_(graph),
        costs_(costs),
        table_(table),
        topology_(topology),
        pending_(std::move(pending)),
        max_min_(table),
        slot_count_(static_cast<std::uint32_t>(graph.ranks.size()) * kLaneCount),
        timer_base_(slot_count_ + table.workers.threads),
        flow_base_(timer_base_ + static_cast<std::uint32_t>(graph.ranks.size())),
        slots_(slot_count_),
        activities_(flow_base_),
        ranks_(graph.ranks.size()),
        meetings_(graph.rendezvous.size()) {
    for (std::uint32_t slot = 0; slot < slot_count_; ++slot) activities_[slot].slot = slot;
    for (RendezvousId id = 0; id < meetings_.size(); ++id) {
      meetings_[id].missing = graph.rendezvous[id].participants;
    }
    // Which state bits a class of task depends on.
    depends_on_[0] = (table.copy_slows_compute ? kH2DRuns | kD2HRuns : 0u) |
                     (table.collective_slows_compute ? kCollectiveRuns : 0u) |
                     (HasClocks() ? kRested : 0u);
    depends_on_[1] = CopyMask(table.h2d_speed, kD2HRuns);
    depends_on_[2] = table.compute_slows_collective ? kComputeRuns : 0u;
    depends_on_[3] = CopyMask(table.d2h_speed, kH2DRuns);
    for (const std::uint32_t mask : depends_on_) watched_ |= mask;
    if (HasClocks()) {
      watched_ |= kComputeRuns | kCollectiveRuns;
      clocks_.resize(graph.ranks.size());
      for (std::size_t i = 0; i < clocks_.size(); ++i) {
        clocks_[i].left_ps = BoostAtBegin(table.clocks, i);
      }
    }
    if (table.kernels_take_turns) turns_.emplace(graph.ranks.size());
    if (table.handoff_ps > 0) handed_over_ps_.resize(graph.tasks.size(), 0);
    if constexpr (kHasWorkers) {
      threads_.emplace(graph, topology, table.workers.threads);
      wake_delay_.emplace(table.workers);
      thread_of_slot_.resize(slot_count_);
    }
    replay_.start_ps.resize(graph.tasks.size());
    replay_.end_ps.resize(graph.tasks.size(), kNotDone);
    replay_.ready_ps.resize(graph.tasks.size());
  }

  Result<Replay> Run() {
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      if (pending_[id] == 0) initial_.push_back(id);
    }
    for (const TaskId id : initial_) MakeReady(id);
    FinishMoment();
    GrantTurns();
    while (!queue_.empty() && !overflow_) {
      now_ = queue_.next_time();
      do {
        const std::uint32_t activity = queue_.next_activity();
        queue_.Pop();
        EndActivity(activity);
      } while (!queue_.empty() && queue_.next_time() == now_);
      FinishMoment();
      GrantTurns();
    }
    if (overflow_) {
      return Error{.message = StrCat("the replay lasts more than ", kMaxTime, " ps")};
    }
    if (done_ < graph_.TaskCount()) {
      return DeadlockError(graph_, topology_, pending_, replay_.end_ps);
    }
    // A thread may wake after the last task, and find nothing.
    replay_.makespan_ps = last_end_;
    for (RankClocks& clocks : clocks_) {
      Account(clocks, last_end_);
      replay_.boost_left_ps.push_back(clocks.left_ps);
    }
    return std::move(replay_);
  }

 private:
  // Which bits change a speed: compute's, the host's, and that of copies the other way.
  static std::uint32_t CopyMask(const CopySpeeds& speeds, std::uint32_t other) {
    std::uint32_t mask = 0;
    for (std::size_t state = 0; state < speeds.size(); ++state) {
      if (speeds[state] != speeds[state & ~std::size_t{1}]) mask |= kComputeRuns;
      if (speeds[state] != speeds[state & ~std::size_t{2}]) mask |= kHostRuns;
      if (speeds[state] != speeds[state & ~std::size_t{4}]) mask |= other;
    }
    return mask;
  }

  bool HasClocks() const { return table_.clocks.boost_ps > 0; }

  // What has been saved or spent until `now`.
  void Account(RankClocks& clocks, Picoseconds now) const {
    const Picoseconds elapsed = now - clocks.since_ps;
    if (clocks.use == ClockUse::kComputes) {
      clocks.left_ps = std::max<Picoseconds>(0, clocks.left_ps - elapsed);
    } else if (clocks.use == ClockUse::kRests) {
      const double saved = table_.clocks.boost_per_rest * static_cast<double>(elapsed);
      const auto room = static_cast<double>(table_.clocks.boost_ps - clocks.left_ps);
      clocks.left_ps += static_cast<Picoseconds>(std::llround(std::min(saved, room)));
    }
    clocks.since_ps = now;
  }

  // Whether the rank computes or rests has perhaps changed.
  void UpdateClocks(RankId rank) {
    RankClocks& clocks = clocks_[rank];
    const std::uint32_t* const running = ranks_[rank].running;
    const ClockUse use = ClockUseOf(running[static_cast<int>(Class::kCompute)] > 0,
                                    running[static_cast<int>(Class::kCollective)] > 0);
    if (use == clocks.use) return;
    Account(clocks, now_);
    clocks.use = use;
    if (use == ClockUse::kComputes && clocks.left_ps > 0) {
      queue_.Set(timer_base_ + rank, now_ + clocks.left_ps);
    }
  }

  // The timer is not moved while the rank does not compute.
  void EndBoost(RankId rank) {
    RankClocks& clocks = clocks_[rank];
    if (clocks.use != ClockUse::kComputes) return;
    const Picoseconds end = clocks.since_ps + clocks.left_ps;
    if (end > now_) return queue_.Set(timer_base_ + rank, end);
    Account(clocks, now_);
    MarkDirty(rank);
  }

  const PreparedCost& CostOf(TaskId id) const { return table_.costs[costs_.cost_of_task[id]]; }

  void MakeReady(TaskId id) {
    replay_.ready_ps[id] = now_;
    if constexpr (kHasWorkers) return;  // Threads find it.
    if (table_.handoff_ps > 0 && handed_over_ps_[id] > now_) {
      return Delay(id, Slot::Stage::kHandoff, handed_over_ps_[id]);
    }
    Arrive(id);
  }

  // The lane has nothing else to do until then.
  void Delay(TaskId id, Slot::Stage stage, Picoseconds until_ps) {
    Slot& slot = slots_[SlotOf(id)];
    slot.task = id;
    slot.stage = stage;
    queue_.Set(SlotOf(id), until_ps);
  }

  void EndDelay(Slot& slot) {
    const Slot::Stage stage = std::exchange(slot.stage, Slot::Stage::kRuns);
    if (stage == Slot::Stage::kHandoff) return Arrive(slot.task);
    Meet(graph_.tasks[slot.task].rendezvous);
  }

  void Arrive(TaskId id) {
    const RendezvousId rendezvous = graph_.tasks[id].rendezvous;
    if (rendezvous == kNone) return Start(id);
    if (--meetings_[rendezvous].missing > 0) return;
    if (table_.meeting_ps > 0 && IsOfSeveralRanks(graph_, rendezvous)) {
      return Delay(id, Slot::Stage::kMeeting, now_ + table_.meeting_ps);
    }
    Meet(rendezvous);
  }

  void Meet(RendezvousId rendezvous) {
    const auto members = topology_.Members(rendezvous);
    meetings_[rendezvous].open = static_cast<std::uint32_t>(members.size());
    for (const TaskId member : members) Start(member);
  }

  void StartJob(const LaneThreads::Start& start) {
    const Picoseconds delay_ps = start.has_slept ? 0 : table_.workers.dispatch_ps;
    const RendezvousId rendezvous = graph_.tasks[start.job].rendezvous;
    if (rendezvous == kNone) return StartOnThread(start.job, start.thread, delay_ps);
    const auto members = topology_.Members(rendezvous);
    meetings_[rendezvous].open = static_cast<std::uint32_t>(members.size());
    for (const TaskId member : members) StartOnThread(member, start.thread, delay_ps);
  }

  // On a worker thread the fixed time of any task is work that can be slowed.
  void StartOnThread(TaskId id, std::uint32_t thread, Picoseconds delay_ps) {
    const std::uint32_t index = SlotOf(id);
    const PreparedCost& cost = CostOf(id);
    replay_.start_ps[id] = now_ + delay_ps;
    Slot& slot = slots_[index];
    slot.task = id;
    slot.cost = costs_.cost_of_task[id];
    slot.flows_started = false;
    slot.open = 1;
    thread_of_slot_[index] = thread;
    working_.push_back(index);
    if (delay_ps == 0 && cost.fixed_ps == 0) return StartFlows(index);
    Activity& activity = activities_[index];
    activity.last = now_ + delay_ps;
    activity.work = static_cast<Work>(cost.fixed_ps) << kSpeedBits;
    activity.base = kFullSpeed;
    fresh_.push_back(index);
  }

  std::uint32_t SlotOf(TaskId id) const {
    const Task& task = graph_.tasks[id];
    return task.rank * kLaneCount + static_cast<std::uint32_t>(task.lane);
  }

  void Start(TaskId id) {
    const Task& task = graph_.tasks[id];
    const PreparedCost& cost = CostOf(id);
    const std::uint32_t index = SlotOf(id);
    replay_.start_ps[id] = now_;
    Slot& slot = slots_[index];
    slot.task = id;
    slot.cost = costs_.cost_of_task[id];
    slot.segment = cost.segment_begin;
    slot.segment_end = cost.segment_begin + cost.segment_count;
    slot.task_class = ClassOf(task.kind);
    slot.flows_started = false;
    slot.open = 1;
    slot.turn = TurnOf(slot.task_class, cost);
    if (slot.turn == KernelTurn::kNever) return Begin(index);
    turns_->Ask(task.rank, id, slot.task_class == Class::kCompute);
  }

  // What takes no time on the multiprocessors does not wait for them.
  KernelTurn TurnOf(Class task_class, const PreparedCost& cost) const {
    if (!turns_.has_value()) return KernelTurn::kNever;
    if (task_class == Class::kCompute) {
      return cost.fixed_ps > 0 ? KernelTurn::kWhole : KernelTurn::kNever;
    }
    const bool is_nothing = cost.turn == KernelTurn::kBegins && cost.fixed_ps == 0;
    return is_nothing ? KernelTurn::kNever : cost.turn;
  }

  void EndTurn(Slot& slot) {
    if (std::exchange(slot.turn, KernelTurn::kNever) == KernelTurn::kNever) return;
    turns_->Release(graph_.tasks[slot.task].rank);
  }

  // Once nothing else happens at this moment.
  void GrantTurns() {
    while (turns_.has_value() && (queue_.empty() || queue_.next_time() > now_)) {
      const std::vector<TaskId> granted = turns_->Grant();
      if (granted.empty()) return;
      for (const TaskId id : granted) Begin(SlotOf(id));
      FinishMoment();
    }
  }

  // A kernel of a fused computation is done. The next one comes now: those that have waited come
  // first.
  bool YieldTurn(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (!turns_.has_value() || slot.task_class != Class::kCompute) return false;
    while (slot.segment < slot.segment_end &&
           table_.costs[costs_.segments[slot.segment]].fixed_ps == 0) {
      ++slot.segment;
    }
    if (slot.segment == slot.segment_end) return false;
    const Task& task = graph_.tasks[slot.task];
    if (slot.turn == KernelTurn::kWhole && !turns_->IsAwaited(task.rank)) return false;
    EndTurn(slot);
    slot.turn = KernelTurn::kWhole;
    turns_->Ask(task.rank, slot.task, /*computes=*/true);
    if (watched_ != 0) CountRunning(task.rank, slot.task_class, -1);
    return true;
  }

  // Its kernel, if it has one, has its turn.
  void Begin(std::uint32_t index) {
    Slot& slot = slots_[index];
    const Task& task = graph_.tasks[slot.task];
    const PreparedCost& cost = CostOf(slot.task);
    if (watched_ != 0) {
      ranks_[task.rank].lanes |= 1u << static_cast<std::uint32_t>(task.lane);
      CountRunning(task.rank, slot.task_class, 1);
    }
    Activity& activity = activities_[index];
    activity.last = now_;
    if (slot.task_class == Class::kCompute || slot.turn == KernelTurn::kBegins) {
      if (cost.fixed_ps == 0) {
        StartFlows(index);
        return;
      }
      if (slot.segment < slot.segment_end) {
        if (!StartSegment(index)) StartFlows(index);
        return;
      }
      return StartFixedTime(index, cost);
    } else {
      if (cost.shared_count > 0 && cost.fixed_ps == 0) {
        StartFlows(index);
        return;
      }
      // Nothing slows a latency: it is an offset of `last`. A private flow follows it at once,
      // shared flows need to begin when it ends.
      activity.last = now_ + cost.fixed_ps;
      activity.work = 0;
      activity.base = 1;
      if (cost.shared_count == 0) {
        slot.flows_started = true;
        activity.work = cost.private_work;
        activity.base = cost.private_rate;
      }
    }
    fresh_.push_back(index);
  }

  // Where the task has a turn, first that.
  void StartFixedTime(std::uint32_t index, const PreparedCost& cost) {
    Slot& slot = slots_[index];
    const bool lets_in = slot.turn == KernelTurn::kWhole;
    slot.rest_ps = lets_in ? cost.fixed_ps - cost.lets_in_ps : 0;
    Spend(index, cost.fixed_ps - slot.rest_ps);
  }

  void Spend(std::uint32_t index, Picoseconds fixed_ps) {
    Activity& activity = activities_[index];
    activity.work = static_cast<Work>(fixed_ps) << kSpeedBits;
    activity.base = kFullSpeed;
    activity.last = now_;
    fresh_.push_back(index);
  }

  // The next member of a fused computation that takes time; false when none is left.
  bool StartSegment(std::uint32_t index) {
    Slot& slot = slots_[index];
    while (slot.segment < slot.segment_end) {
      slot.cost = costs_.segments[slot.segment++];
      if (table_.costs[slot.cost].fixed_ps == 0) continue;
      StartFixedTime(index, table_.costs[slot.cost]);
      return true;
    }
    return false;
  }

  void StartFlows(std::uint32_t index) {
    Slot& slot = slots_[index];
    const PreparedCost& cost = CostOf(slot.task);
    slot.flows_started = true;
    slot.open = 0;
    if (cost.private_work > 0) {
      Activity& activity = activities_[index];
      activity.work = cost.private_work;
      activity.base = cost.private_rate;
      activity.last = now_;
      fresh_.push_back(index);
      ++slot.open;
    }
    for (std::uint32_t i = 0; i < cost.shared_count; ++i) {
      const std::uint32_t flow = NewFlow();
      const std::uint32_t plan = cost.shared_begin + i;
      Activity& activity = activities_[flow_base_ + flow];
      activity.work = table_.flows[plan].work;
      activity.last = now_;
      activity.slot = index;
      next_flow_[flow] = slot.first_flow;
      slot.first_flow = flow;
      max_min_.Add(flow, plan);
      ++slot.open;
    }
    if (slot.open == 0) EndTask(slot.task);
  }

  std::uint32_t NewFlow() {
    if (free_flows_.empty()) {
      activities_.emplace_back();
      next_flow_.push_back(kNone);
      return static_cast<std::uint32_t>(next_flow_.size()) - 1;
    }
    const std::uint32_t flow = free_flows_.back();
    free_flows_.pop_back();
    return flow;
  }

  void EndActivity(std::uint32_t index) {
    if (kHasWorkers && index >= slot_count_ && index < timer_base_) {
      return threads_->Wake(index - slot_count_);
    }
    if (index >= timer_base_ && index < flow_base_) return EndBoost(index - timer_base_);
    if (index < slot_count_ && slots_[index].stage != Slot::Stage::kRuns) {
      return EndDelay(slots_[index]);
    }
    const std::uint32_t slot_index = activities_[index].slot;
    Slot& slot = slots_[slot_index];
    if (index >= flow_base_) {
      const std::uint32_t flow = index - flow_base_;
      max_min_.Remove(flow);
      std::uint32_t* link = &slot.first_flow;
      while (*link != flow) link = &next_flow_[*link];
      *link = next_flow_[flow];
      free_flows_.push_back(flow);
    } else if (!slot.flows_started) {
      if (slot.turn == KernelTurn::kBegins) EndTurn(slot);
      if (slot.rest_ps > 0) {
        EndTurn(slot);
        return Spend(slot_index, std::exchange(slot.rest_ps, 0));
      }
      if (YieldTurn(slot_index)) return;
      if (!StartSegment(slot_index)) StartFlows(slot_index);
      return;
    }
    if (--slot.open == 0) EndTask(slot.task);
  }

  // The task's own part is over; a rendezvous ends as a whole.
  void EndTask(TaskId id) {
    EndTurn(slots_[SlotOf(id)]);
    const RendezvousId rendezvous = graph_.tasks[id].rendezvous;
    if (rendezvous == kNone) {
      finished_.push_back(id);
      if constexpr (kHasWorkers) threads_->EndJob(thread_of_slot_[SlotOf(id)]);
    } else if (--meetings_[rendezvous].open == 0) {
      for (const TaskId member : topology_.Members(rendezvous)) finished_.push_back(member);
      if constexpr (kHasWorkers) threads_->EndJob(thread_of_slot_[SlotOf(id)]);
    }
  }

  // What ends lets threads go on to other jobs; those may end at once.
  void FinishMoment() {
    FinishTasks();
    while (kHasWorkers && AssignThreads()) FinishTasks();
    Settle();
  }

  bool AssignThreads() {
    const std::span<const LaneThreads::Start> starts = threads_->Settle();
    bool changed = !starts.empty();
    for (const LaneThreads::Start& start : starts) StartJob(start);
    for (const std::uint32_t thread : threads_->TakeIdle()) wake_delay_->FallIdle(thread, now_);
    for (const std::uint32_t thread : threads_->TakeNotified()) {
      const Picoseconds delay_ps = wake_delay_->Of(thread, now_);
      if (delay_ps == 0) {
        threads_->Wake(thread);
        changed = true;
      } else {
        queue_.Set(slot_count_ + thread, now_ + delay_ps);
      }
    }
    return changed;
  }

  void FinishTasks() {
    for (std::size_t i = 0; i < finished_.size(); ++i) {
      const TaskId id = finished_[i];
      replay_.end_ps[id] = now_;
      last_end_ = now_;
      ++done_;
      if constexpr (kHasWorkers)
        working_.erase(std::find(working_.begin(), working_.end(), SlotOf(id)));
      const Task& task = graph_.tasks[id];
      if (watched_ != 0) {
        ranks_[task.rank].lanes &= ~(1u << static_cast<std::uint32_t>(task.lane));
        CountRunning(task.rank, ClassOf(task.kind), -1);
      }
      for (const TaskId next : graph_.Successors(id)) {
        if (table_.handoff_ps > 0 && graph_.tasks[next].lane != task.lane) {
          handed_over_ps_[next] = std::max(handed_over_ps_[next], now_ + table_.handoff_ps);
        }
        if (--pending_[next] == 0) MakeReady(next);
      }
      const TaskId next = topology_.next_in_lane[id];
      if (next != kNone && --pending_[next] == 0) MakeReady(next);
    }
    finished_.clear();
  }

  void CountRunning(RankId rank, Class task_class, int change) {
    ranks_[rank].running[static_cast<int>(task_class)] += static_cast<std::uint32_t>(change);
    MarkDirty(rank);
  }

  void MarkDirty(RankId rank) {
    if (std::exchange(ranks_[rank].dirty, true)) return;
    dirty_ranks_.push_back(rank);
  }

  // After everything that happens at one moment: new rates, new ends.
  void Settle() {
    for (const std::uint32_t flow : max_min_.Settle()) {
      // Progress up to now was at the old rate.
      Activity& activity = activities_[flow_base_ + flow];
      Progress(activity);
      activity.base = max_min_.rate(flow);
      fresh_.push_back(flow_base_ + flow);
    }
    for (const RankId rank : dirty_ranks_) {
      RankActivity& activity = ranks_[rank];
      activity.dirty = false;
      std::uint32_t state = 0;
      for (int i = 0; i < kClassCount; ++i) state |= (activity.running[i] > 0 ? 1u : 0u) << i;
      if (HasClocks()) {
        UpdateClocks(rank);
        if (clocks_[rank].left_ps > 0) state |= kRested;
      }
      state &= watched_;
      const std::uint32_t change = state ^ activity.state;
      activity.state = state;
      if (change != 0) RescheduleRank(rank, change);
    }
    dirty_ranks_.clear();
    if (kHasWorkers && table_.busy_threads_slow && threads_->busy_threads() != busy_threads_) {
      busy_threads_ = threads_->busy_threads();
      for (const std::uint32_t index : working_) RescheduleSlot(index);
    }
    for (const std::uint32_t index : fresh_) Reschedule(index);
    fresh_.clear();
  }

  void RescheduleRank(RankId rank, std::uint32_t change) {
    for (std::uint32_t lanes = ranks_[rank].lanes; lanes != 0; lanes &= lanes - 1) {
      const std::uint32_t index =
          rank * kLaneCount + static_cast<std::uint32_t>(std::countr_zero(lanes));
      const Slot& slot = slots_[index];
      if ((depends_on_[static_cast<int>(slot.task_class)] & change) == 0) continue;
      RescheduleSlot(index);
    }
  }

  void RescheduleSlot(std::uint32_t index) {
    if (queue_.Contains(index)) Reschedule(index);
    for (std::uint32_t flow = slots_[index].first_flow; flow != kNone; flow = next_flow_[flow]) {
      if (queue_.Contains(flow_base_ + flow)) Reschedule(flow_base_ + flow);
    }
  }

  std::uint64_t SpeedBesideThreads(const Slot& slot) const {
    if (busy_threads_ < 2) return kFullSpeed;
    const double others =
        static_cast<double>(busy_threads_ - 1) / static_cast<double>(table_.workers.threads - 1);
    return ToSpeed(1 / (1 + (table_.busy_slowdown[slot.cost] - 1) * others));
  }

  static std::uint32_t CopyState(std::uint32_t state) {
    return (state & kComputeRuns) | (state & kHostRuns) >> 3;
  }

  std::uint64_t SpeedOf(const Slot& slot) const {
    if constexpr (kHasWorkers) return SpeedBesideThreads(slot);
    if (watched_ == 0) return kFullSpeed;
    const std::uint32_t state = ranks_[graph_.tasks[slot.task].rank].state;
    switch (slot.task_class) {
      case Class::kCompute:
        return table_.costs[slot.cost]
            .compute_speed[((state >> 1) & 7) | ((state & kRested) != 0 ? 8u : 0u)];
      case Class::kH2D:
        return table_.h2d_speed[CopyState(state) | ((state & kD2HRuns) != 0 ? 4u : 0u)];
      case Class::kD2H:
        return table_.d2h_speed[CopyState(state) | ((state & kH2DRuns) != 0 ? 4u : 0u)];
      case Class::kCollective:
        // Nothing slows a latency.
        return slot.flows_started && (state & kComputeRuns) != 0
                   ? table_.costs[slot.cost].communication_speed
                   : kFullSpeed;
      case Class::kHost:
        return kFullSpeed;
    }
    return kFullSpeed;
  }

  void Progress(Activity& activity) const {
    if (activity.last >= now_) return;
    const Work done = static_cast<Work>(activity.rate) * static_cast<Work>(now_ - activity.last);
    activity.work -= std::min(activity.work, done);
    activity.last = now_;
  }

  void Reschedule(std::uint32_t index) {
    Activity& activity = activities_[index];
    Progress(activity);
    activity.rate = ScaleRate(activity.base, SpeedOf(slots_[activity.slot]));
    const Picoseconds end = activity.last + TimeFor(activity.work, activity.rate);
    if (end > kMaxTime) overflow_ = true;
    queue_.Set(index, end);
  }

  const TaskGraph& graph_;
  const GraphCosts& costs_;
  const CostTable& table_;
  const Topology& topology_;
  std::vector<std::uint32_t> pending_;
  MaxMin max_min_;
  std::optional<LaneThreads> threads_;  // Worker threads, if there are any.
  std::optional<WakeDelay> wake_delay_;
  std::optional<KernelTurns> turns_;         // Where some kernels do not compute.
  std::vector<Picoseconds> handed_over_ps_;  // By task: other lanes' part of when it can begin.
  std::uint32_t busy_threads_ = 0;           // As the rates have it.
  std::vector<std::uint32_t> working_;       // Slots of tasks that threads run.
  std::vector<std::uint32_t> thread_of_slot_;
  EventQueue queue_;
  Replay replay_;
  Picoseconds now_ = 0, last_end_ = 0;
  std::uint32_t done_ = 0;
  bool overflow_ = false;

  // Activities: lanes, threads that wake, clocks that fall, flows.
  std::uint32_t slot_count_, timer_base_, flow_base_;
  std::vector<Slot> slots_;
  std::vector<Activity> activities_;
  std::vector<std::uint32_t> next_flow_, free_flows_;
  std::vector<RankActivity> ranks_;
  std::vector<RankClocks> clocks_;  // By rank; empty where the GPUs have one speed.
  std::vector<Meeting> meetings_;
  std::uint32_t depends_on_[kClassCount] = {};  // By Class: bits of RankState.
  std::uint32_t watched_ = 0;

  // Of the current moment.
  std::vector<TaskId> initial_, finished_;
  std::vector<RankId> dirty_ranks_;
  std::vector<std::uint32_t> fresh_;  // Activities that are new or have a new base rate.
};

}  // namespace

Result<Replay> ReplayEvents(const TaskGraph& graph, const GraphCosts& costs, const CostTable& table,
                            const Topology& topology) {
  Result<std::vector<std::uint32_t>> pending = CountPredecessors(graph, topology);
  if (!pending.ok()) return pending.error();
  if (table.workers.threads > 0) {
    return EventReplay<true>(graph, costs, table, topology, std::move(pending).value()).Run();
  }
  return EventReplay<false>(graph, costs, table, topology, std::move(pending).value()).Run();
}

}  // namespace twinstep
