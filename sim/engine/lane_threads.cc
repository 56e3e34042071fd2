#include "sim/engine/lane_threads.h"

#include <algorithm>
#include <utility>

namespace twinstep {

LaneThreads::LaneThreads(const TaskGraph& graph, const Topology& topology, std::uint32_t threads)
    : graph_(graph),
      topology_(topology),
      lanes_(graph.ranks.size() * kLaneCount),
      threads_(threads),
      wait_begin_(graph.tasks.size() + 1, 0),
      has_happened_(graph.tasks.size(), false),
      first_waiting_(graph.tasks.size(), kNoLane),
      arrived_(graph.rendezvous.size(), 0),
      first_at_meeting_(graph.rendezvous.size(), kNoLane) {
  const auto for_each_wait = [&graph](auto visit) {
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      for (const TaskId next : graph.Successors(id)) {
        if (graph.tasks[next].lane != graph.tasks[id].lane) visit(id, next);
      }
    }
  };
  for_each_wait([this](TaskId, TaskId next) { ++wait_begin_[next + 1]; });
  for (std::size_t i = 1; i < wait_begin_.size(); ++i) wait_begin_[i] += wait_begin_[i - 1];
  waits_.resize(wait_begin_.back());
  std::vector<std::uint32_t> slot(wait_begin_.begin(), wait_begin_.end() - 1);
  for_each_wait([&](TaskId id, TaskId next) { waits_[slot[next]++] = id; });

  for (TaskId id = graph.TaskCount(); id-- > 0;) {
    const Task& task = graph.tasks[id];
    lanes_[task.rank * std::size_t{kLaneCount} + static_cast<std::size_t>(task.lane)].task = id;
  }
  for (std::uint32_t thread = threads; thread-- > 0;) sleeping_.push_back(thread);
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].task != kNone) MakeReady(lane);
  }
}

void LaneThreads::MakeReady(std::uint32_t lane) {
  ready_.push_back(lane);
  if (sleeping_.empty()) return;
  notified_.push_back(sleeping_.back());
  sleeping_.pop_back();
}

void LaneThreads::WakeAll(std::uint32_t* first_waiting) {
  std::uint32_t lane = std::exchange(*first_waiting, kNoLane);
  while (lane != kNoLane) {
    const std::uint32_t next = std::exchange(lanes_[lane].next, kNoLane);
    MakeReady(lane);
    lane = next;
  }
}

void LaneThreads::Await(std::uint32_t lane, std::uint32_t* first_waiting) {
  lanes_[lane].next = std::exchange(*first_waiting, lane);
}

TaskId LaneThreads::Serve(std::uint32_t number) {
  Lane& lane = lanes_[number];
  while (lane.task != kNone) {
    if (lane.has_run) {
      has_happened_[lane.task] = true;
      WakeAll(&first_waiting_[lane.task]);
      lane.task = topology_.next_in_lane[lane.task];
      lane.waits = 0;
      lane.has_run = false;
      continue;
    }
    for (const std::span<const TaskId> waits = WaitsOf(lane.task); lane.waits < waits.size();
         ++lane.waits) {
      const TaskId event = waits[lane.waits];
      if (has_happened_[event]) continue;
      Await(number, &first_waiting_[event]);
      return kNone;
    }
    const RendezvousId rendezvous = graph_.tasks[lane.task].rendezvous;
    if (rendezvous == kNone) return lane.task;
    if (++arrived_[rendezvous] == graph_.rendezvous[rendezvous].participants) {
      return topology_.Members(rendezvous).front();
    }
    Await(number, &first_at_meeting_[rendezvous]);
    return kNone;
  }
  return kNone;
}

void LaneThreads::FinishJob(std::uint32_t number) {
  Thread& thread = threads_[number];
  --busy_;
  lanes_[thread.lane].has_run = true;
  const RendezvousId rendezvous = graph_.tasks[thread.job].rendezvous;
  if (rendezvous == kNone) return;
  for (std::uint32_t other = first_at_meeting_[rendezvous]; other != kNoLane;
       other = lanes_[other].next) {
    lanes_[other].has_run = true;
  }
  WakeAll(&first_at_meeting_[rendezvous]);
}

void LaneThreads::GoOn(std::uint32_t number, std::uint32_t lane, bool has_slept) {
  for (;;) {
    const TaskId job = lane == kNoLane ? kNone : Serve(lane);
    if (job != kNone) {
      threads_[number] = {lane, job};
      ++busy_;
      starts_.push_back({job, number, has_slept});
      return;
    }
    if (ready_.empty()) break;
    lane = ready_.front();
    ready_.pop_front();
  }
  sleeping_.push_back(number);
  idle_.push_back(number);
}

std::span<const LaneThreads::Start> LaneThreads::Settle() {
  starts_.clear();
  std::sort(ended_.begin(), ended_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return threads_[a].job < threads_[b].job; });
  for (const std::uint32_t thread : std::exchange(ended_, {})) {
    FinishJob(thread);
    GoOn(thread, threads_[thread].lane, /*has_slept=*/false);
  }
  for (const std::uint32_t thread : std::exchange(woken_, {})) {
    GoOn(thread, kNoLane, /*has_slept=*/true);
  }
  return starts_;
}

std::vector<std::uint32_t> LaneThreads::TakeIdle() { return std::exchange(idle_, {}); }

std::vector<std::uint32_t> LaneThreads::TakeNotified() { return std::exchange(notified_, {}); }

}  // namespace twinstep
