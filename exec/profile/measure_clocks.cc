#include "exec/profile/measure_clocks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "exec/profile/clock_windows.h"
#include "exec/profile/phase_times.h"
#include "exec/profile/primitive.h"
#include "exec/profile/statistics.h"
#include "exec/profile/task_seconds.h"
#include "sim/graph/task_graph.h"

namespace twinstep {
namespace {

// A smaller difference of speeds is noise.
constexpr double kLeastSpeedup = 0.02;

void Rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

class ClockMeasurement {
 public:
  ClockMeasurement(const LoweredPlan& layers, const RepeatedRunOptions& run_options,
                   const ClockOptions& options)
      : run_(layers, run_options), phase_times_(run_options.phase_times), options_(options) {}

  Status Run(ClockTimes* times) {
    if (const Status started = run_.Start(/*fill_buffers=*/false); !started.ok()) return started;
    if (const Status warm = run_.WarmUp(options_.steady_s); !warm.ok()) return warm;
    Means steady;
    const Status measured = run_.Measure(options_.steady_s, &steady);
    if (!measured.ok()) return measured;
    for (const auto& [primitive, seconds] : steady) {
      if (!IsCopy(primitive.shape.op) && !primitive.on_host && primitive.group_size == 0) {
        steady_s_[primitive] = Summarize(seconds).median;
      }
    }
    std::vector<double> boosts, gains;
    // Each begins at low clocks, after as much computing as these need.
    for (int i = 0; i < options_.repeats; ++i) {
      std::vector<ClockWindow> after_long, after_short;
      Rest(options_.long_rest_s);
      if (const Status done = Watch(&after_long); !done.ok()) return done;
      Rest(options_.short_rest_s);
      if (const Status done = Watch(&after_short); !done.ok()) return done;
      const double fast = after_long.front().Slowness(), slow = SteadySlowness(after_long);
      if (!(slow - fast > kLeastSpeedup)) continue;
      boosts.push_back(FastSeconds(after_long, fast, slow));
      gains.push_back(FastSeconds(after_short, fast, slow) / options_.short_rest_s);
    }
    if (2 * boosts.size() <= static_cast<std::size_t>(options_.repeats)) return Unit{};
    times->boost_s = Summarize(boosts).median;
    times->boost_per_rest_s = Summarize(gains).median;
    return Unit{};
  }

 private:
  // Iterations until the device has computed for steady_s.
  Status Watch(std::vector<ClockWindow>* windows) {
    const PhaseTimes::Part part(phase_times_, &PhaseTime::measuring_s);
    windows->assign(1, {});
    double computed_s = 0;
    while (computed_s < options_.steady_s) {
      if (const Status done = run_.RunIteration(); !done.ok()) return done;
      const double before_s = computed_s;
      for (const TaskId id : InOrder()) {
        const double seconds = Seconds(run_.Time(id));
        ClockWindow& window = windows->back();
        window.seconds += seconds;
        window.steady_s += steady_s_.at(*run_.PrimitiveOfTask(id));
        computed_s += seconds;
        if (window.seconds >= options_.window_s) windows->emplace_back();
      }
      if (!(computed_s > before_s)) break;  // A clock that stands still.
    }
    if (windows->size() > 1 && windows->back().seconds < options_.window_s) windows->pop_back();
    return Unit{};
  }

  // The first rank's operators that were measured, as they ran.
  std::vector<TaskId> InOrder() const {
    const TaskGraph& graph = run_.graph();
    std::vector<TaskId> ids;
    for (TaskId id = graph.rank_begin[0]; id < graph.rank_begin[1]; ++id) {
      const Primitive* const primitive = run_.PrimitiveOfTask(id);
      if (graph.tasks[id].kind == TaskKind::kCompute && steady_s_.contains(*primitive)) {
        ids.push_back(id);
      }
    }
    std::ranges::sort(ids, {}, [this](TaskId id) { return run_.Time(id).start_ns; });
    return ids;
  }

  RepeatedRun run_;
  PhaseTimes* const phase_times_;
  const ClockOptions options_;
  std::map<Primitive, double> steady_s_;
};

}  // namespace

Status MeasureClocks(const LoweredPlan& layers, const RepeatedRunOptions& run_options,
                     const ClockOptions& options, ClockTimes* times) {
  return ClockMeasurement(layers, run_options, options).Run(times);
}

Status MeasureRested(RepeatedRun* run, double boost_s, const ClockOptions& options,
                     PhaseTimes* phase_times, const std::function<bool(TaskId)>& counts,
                     Means* rested) {
  if (const Status warm = run->WarmUp(0); !warm.ok()) return warm;
  const PhaseTimes::Part part(phase_times, &PhaseTime::measuring_s);
  const auto boost_ns = static_cast<std::int64_t>(boost_s * 1e9);
  for (int i = 0; i <= options.repeats; ++i) {
    Rest(options.long_rest_s);
    if (const Status done = run->RunIteration(); !done.ok()) return done;
    if (i == 0) continue;  // Caches of the host, and what drivers do late.
    run->Collect(rested, [&](TaskId id) { return run->Time(id).end_ns <= boost_ns && counts(id); });
  }
  return Unit{};
}

}  // namespace twinstep
