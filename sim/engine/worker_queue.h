// Which job each worker thread takes (the rules: sim/engine/engine.h).
//
//   WorkerQueue queue(costs.workers);
//   queue.BeginMoment();
//   queue.AddReady(job);                       // Jobs that got ready at this moment, and
//   queue.EndJob(task, next_job_of_its_lane);  // those that ended.
//   for (const WorkerQueue::Grant& grant : queue.Assign()) Start(grant.job, grant.delay_ps);
//
// A job is named by its lowest task.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/graph/ids.h"

namespace twinstep {

class WorkerQueue {
 public:
  explicit WorkerQueue(const WorkerPool& pool) : pool_(pool), sleeping_(pool.threads) {}

  // Time moves on: threads that found no job are asleep from now on.
  void BeginMoment();
  void AddReady(TaskId job) { ready_.push_back(job); }
  // The thread that ran a job is free; `task` of it is of the lane that the thread serves. `next`:
  // the job of the lane's next task, kNone if there is none. It continues if it got ready at this
  // moment.
  void EndJob(TaskId task, TaskId next);

  struct Grant {
    TaskId job = kNone;
    TaskId continues = kNone;  // The ended task whose lane goes on; kNone if it came by the queue.
    Picoseconds delay_ps = 0;
  };
  // What starts now. May be called again at the same moment, when more jobs ended or got ready.
  // Valid until the next call.
  std::span<const Grant> Assign();

  std::uint32_t busy_threads() const { return pool_.threads - awake_ - sleeping_; }

 private:
  struct Ended {
    TaskId task, next;
  };

  const WorkerPool pool_;
  std::uint32_t awake_ = 0, sleeping_;  // Threads without a job.
  std::vector<TaskId> ready_;           // Since the last Assign.
  std::vector<Ended> ended_;            // The same; their threads count as awake.
  std::deque<TaskId> waiting_;
  std::vector<Grant> grants_;
};

}  // namespace twinstep
