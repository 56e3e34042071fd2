// A foreign iteration replayed: as it was, or with what takes time made faster or slower.
//
//   Result<WorkReplay> as_it_was = ReplayWork(work, {});
//   std::vector<double> factor(work.tasks.size(), 1);
//   factor[7] = 0.5;                                  // Task 7 takes half of its time.
//   Result<WorkReplay> what_if = ReplayWork(work, factor);
#pragma once

#include <span>

#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"
#include "traces/trace.pb.h"
#include "traces/work_graph.h"

namespace twinstep {

// The task graph of what was traced: the same tasks, lanes and dependencies, no buffers. An
// operation stands for the kind of work a kernel does (traces/operator_class.h); what its tasks
// cost is the trace's own durations. A rank with more lanes than there are in sim/graph/ids.h has
// its least busy ones in one, in order of issue.
TaskGraph ToTaskGraph(const WorkGraph& work);

struct WorkReplay {
  TaskGraph graph;
  GraphCosts costs;
  Replay replay;
  Trace trace;  // With the names of the trace; origin SIMULATED.
};

// `factor` multiplies durations, by task; empty: nothing changes. An Error of kNo is a deadlock:
// the ranks' orders do not fit together; one of kBadInput names a task that lasts too long.
Result<WorkReplay> ReplayWork(const WorkGraph& work, std::span<const double> factor);

// The trace as it was; origin IMPORTED. Every task has a start_ps.
Trace TracedWork(const WorkGraph& work);

}  // namespace twinstep
