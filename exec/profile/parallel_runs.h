// Runs side by side, each called from a thread of its own, iteration after iteration.
//
//   ParallelRuns parallel(&runs, /*iteration_s=*/0.02);
//   Status done = parallel.Repeat(1.0, [&](std::size_t i) { Collect(*runs[i]); });
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "exec/profile/plan_run.h"
#include "sim/result.h"

namespace twinstep {

class ParallelRuns {
 public:
  // `iteration_s`: about what an iteration takes.
  ParallelRuns(std::vector<std::unique_ptr<PlanRun>>* runs, double iteration_s)
      : runs_(*runs), iteration_s_(iteration_s) {}

  // Until the time is over and every run has an iteration that counts: one that ran beside the
  // others from begin to end, and not the first, which brings memory into the caches. `collect(i)`
  // is called behind each that counts of run i, from that run's thread.
  Status Repeat(double seconds, const std::function<void(std::size_t)>& collect);

 private:
  void RepeatOne(std::size_t i, const std::function<void(std::size_t)>& collect);
  // False if the time is over.
  bool RunIteration(std::size_t i);
  void WaitUntilEnough(double seconds);

  std::vector<std::unique_ptr<PlanRun>>& runs_;
  const double iteration_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> counted_;  // Iterations, by run.
  bool stop_ = false;
  std::optional<Error> error_;
};

}  // namespace twinstep
