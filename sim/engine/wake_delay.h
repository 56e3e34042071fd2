// How long a worker thread that was notified takes to look at the queue: it may still be looking
// for work by itself (WorkerPool::look_ps), or sleep.
#pragma once

#include <vector>

#include "sim/cost/graph_costs.h"

namespace twinstep {

class WakeDelay {
 public:
  // All threads sleep.
  explicit WakeDelay(const WorkerPool& pool) : pool_(pool), looks_until_(pool.threads, kNever) {}

  // The thread finds no lane from now on.
  void FallIdle(std::uint32_t thread, Picoseconds now) {
    looks_until_[thread] = now + pool_.look_ps;
  }
  Picoseconds Of(std::uint32_t thread, Picoseconds now) const {
    return now < looks_until_[thread] ? pool_.handoff_ps : pool_.wake_ps;
  }

 private:
  static constexpr Picoseconds kNever = -1;

  const WorkerPool pool_;
  std::vector<Picoseconds> looks_until_;  // By thread.
};

}  // namespace twinstep
