// A graph that runs again and again on a device, to see how long its primitives take in steady
// state.
//
//   RepeatedRun run(lowered, {.make_backend = ...});
//   Status started = run.Start(/*fill_buffers=*/false);
//   Status warm = run.WarmUp(2);
//   Means means;
//   Status done = run.Measure(/*seconds=*/3, &means);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "exec/profile/phase_times.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/primitive.h"
#include "exec/runtime/backend.h"
#include "sim/graph/fused_pairs.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// Means of an iteration's tasks, by primitive: what is repeated are iterations.
using Means = std::map<Primitive, std::vector<double>>;

// 0 where there are none.
double MedianOf(const Means& means, const Primitive& primitive);

struct RepeatedRunOptions {
  // One that records times.
  std::function<Result<std::unique_ptr<Backend>>()> make_backend;
  // Between two iterations that are looked at others run, one at least if this is not 0, so that
  // the device has no time to cool: to ask it for times is a rest, after which it is faster for a
  // while.
  double pause_s = 0;
  PairRule pairs = PairRule::kNoPairs;  // That the backend fuses.
  PhaseTimes* phase_times = nullptr;    // If its time is to be counted.
};

class RepeatedRun {
 public:
  RepeatedRun(LoweredPlan lowered, const RepeatedRunOptions& options);

  Status Start(bool fill_buffers);
  // Without measuring; at least one iteration.
  Status WarmUp(double seconds);
  // One more.
  Status RunIteration();
  // `counts` says whether a task counts, after each iteration.
  Status Measure(double seconds, Means* means, const std::function<bool(TaskId)>& counts);
  Status Measure(double seconds, Means* means);
  // `collect` is called after each iteration that counts, to look at Time() and to Collect().
  Status Measure(double seconds, const std::function<void()>& collect);
  // Adds the means of the last iteration, which it need not ask the device for twice.
  void Collect(Means* means, const std::function<bool(TaskId)>& counts);

  const TaskGraph& graph() const { return lowered_.graph; }
  // Of the last iteration.
  TaskTime Time(TaskId id) const { return times_.empty() ? run_->Time(id) : times_[id]; }
  double IterationSeconds() const;
  // Of those that graph() has; null where a task has none.
  const Primitive* PrimitiveOfTask(TaskId id) const;

  // On the device besides the arena; 0 where the backend does not say.
  std::int64_t OverheadBytes() const;
  std::vector<std::int64_t> ScratchBytes() const;

 private:
  void ReadTimes();

  LoweredPlan lowered_;  // The run refers to it.
  const RepeatedRunOptions options_;
  std::unique_ptr<PlanRun> run_;
  // Of the last iteration, if it was collected: to ask a device for them again and again would take
  // so long that it cools down.
  std::vector<TaskTime> times_;
  std::vector<Primitive> primitives_;
  std::vector<std::uint32_t> primitive_;  // By task.
  int pause_ = 0;                         // Iterations in pause_s.
};

}  // namespace twinstep
