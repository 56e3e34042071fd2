// A foreign iteration replayed: as it was, or with what takes time made faster or slower.
//
//   Result<WorkReplay> as_it_was = ReplayWork(work, {});
//   std::vector<double> factor(work.tasks.size(), 1);
//   factor[7] = 0.5;                                  // Task 7 takes half of its time.
//   Result<WorkReplay> what_if = ReplayWork(work, factor);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/result.h"
#include "traces/trace.pb.h"
#include "traces/work_graph.h"

namespace twinstep {

struct WorkReplay {
  std::vector<std::int64_t> start_ps;  // By task.
  std::int64_t makespan_ps = 0;
  Trace trace;  // With the names of the trace; origin SIMULATED.
};

// Each task begins when all that it waits for has ended, its queue is free, the others of its
// rendezvous are there, and its gap is over: the longest path through the graph. What tasks do to
// each other is in their durations, and queues are as many as a trace has streams, which is why no
// engine of sim/engine replays them. `factor` multiplies durations, by task; empty: nothing
// changes. An Error (kBadInput) names tasks that wait for each other, since the ranks' orders do
// not fit together, or one that lasts too long.
Result<WorkReplay> ReplayWork(const WorkGraph& work, std::span<const double> factor);

// The trace as it was; origin IMPORTED. Every task has a start_ps.
Trace TracedWork(const WorkGraph& work);

}  // namespace twinstep
