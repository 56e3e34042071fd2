// A GPU under its power limit computes faster for a while after it has rested: how much faster
// each operator, how long, and how much rest it takes.
//
//   ClockTimes clocks;
//   Status done = MeasureClocks(layers, {.make_backend = ...}, {}, &clocks);
#pragma once

#include <functional>

#include "exec/profile/phase_times.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/repeated_run.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

struct ClockOptions {
  double long_rest_s = 0.25;   // After it clocks are high.
  double short_rest_s = 0.02;  // Less than what gives all of the boost back.
  double steady_s = 0.4;       // Of computing, until clocks are low again.
  double window_s = 0.01;      // Speeds are looked at over so much computing.
  int repeats = 4;
};

struct ClockTimes {
  // Of computing at high speed after a long rest, and seconds of it that a second of rest gives; 0
  // where a rest changes nothing.
  double boost_s = 0, boost_per_rest_s = 0;
};

// `layers` should compute all the time: of one rank.
Status MeasureClocks(const LoweredPlan& layers, const RepeatedRunOptions& run_options,
                     const ClockOptions& options, ClockTimes* times);

// What primitives take after a rest: of the tasks that count (whether they do is asked after each
// iteration) those that end within `boost_s`. The run, which has been started, should compute from
// the begin on and not much longer.
Status MeasureRested(RepeatedRun* run, double boost_s, const ClockOptions& options,
                     PhaseTimes* phase_times, const std::function<bool(TaskId)>& counts,
                     Means* rested);

}  // namespace twinstep
