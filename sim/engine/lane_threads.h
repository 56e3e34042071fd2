// Worker threads and the lanes that they serve, without time: which job runs on which thread, as
// the CPU backend's scheduler decides (exec/cpu/lane_scheduler.h; the rules: sim/engine/engine.h).
//
//   LaneThreads threads(graph, topology, costs.workers.threads);
//   for (const LaneThreads::Start& start : threads.Settle()) ...        // Job and thread.
//   for (const std::uint32_t thread : threads.TakeNotified()) ...       // Call Wake, some time
//   later. threads.EndJob(thread);                                             // Then Settle
//   again.
//
// A job is a task, or all tasks of a rendezvous, named by the lowest.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sim/engine/topology.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

class LaneThreads {
 public:
  // All lanes stand in the queue, all threads sleep and are notified. Graph and topology must
  // outlive this.
  LaneThreads(const TaskGraph& graph, const Topology& topology, std::uint32_t threads);

  // At one moment, in any order: jobs that end, threads that were notified and are awake now.
  void EndJob(std::uint32_t thread) { ended_.push_back(thread); }
  void Wake(std::uint32_t thread) { woken_.push_back(thread); }

  struct Start {
    TaskId job = kNone;
    std::uint32_t thread = 0;
    bool has_slept = false;  // Else the thread ended another job at this moment.
  };
  // Lets these threads go on until each has a job or sleeps: the ones that ended jobs first, by
  // job. Valid until the next call.
  std::span<const Start> Settle();
  // Threads that Settle left without a job.
  std::vector<std::uint32_t> TakeIdle();
  // Threads that Settle notified, of those without a job: they wake to look for a lane.
  std::vector<std::uint32_t> TakeNotified();

  std::uint32_t busy_threads() const { return busy_; }

 private:
  static constexpr std::uint32_t kNoLane = kNone;

  struct Lane {
    TaskId task = kNone;           // The next one, kNone behind the last.
    std::uint32_t waits = 0;       // Events of the task that have happened.
    bool has_run = false;          // The task: what is left is to record its event.
    std::uint32_t next = kNoLane;  // In a list of lanes that wait for the same.
  };
  struct Thread {
    std::uint32_t lane = kNoLane;
    TaskId job = kNone;
  };

  std::span<const TaskId> WaitsOf(TaskId id) const {
    return {waits_.data() + wait_begin_[id], waits_.data() + wait_begin_[id + 1]};
  }
  void MakeReady(std::uint32_t lane);
  void WakeAll(std::uint32_t* first_waiting);
  void Await(std::uint32_t lane, std::uint32_t* first_waiting);
  // Advances the lane until it blocks, is at its end, or its next job can run: that job.
  TaskId Serve(std::uint32_t lane);
  void FinishJob(std::uint32_t thread);
  void GoOn(std::uint32_t thread, std::uint32_t lane, bool has_slept);

  const TaskGraph& graph_;
  const Topology& topology_;
  std::vector<Lane> lanes_;  // By rank and lane.
  std::vector<Thread> threads_;
  std::vector<std::uint32_t> sleeping_;  // Threads that were not notified.
  std::vector<std::uint32_t> notified_, idle_;
  std::uint32_t busy_ = 0;
  std::deque<std::uint32_t> ready_;  // Lanes.
  std::vector<std::uint32_t> ended_, woken_;
  std::vector<Start> starts_;

  // By task: predecessors in other lanes, in id order; lanes that wait for its event.
  std::vector<std::uint32_t> wait_begin_;
  std::vector<TaskId> waits_;
  std::vector<bool> has_happened_;
  std::vector<std::uint32_t> first_waiting_;
  // By rendezvous.
  std::vector<std::uint32_t> arrived_, first_at_meeting_;
};

}  // namespace twinstep
