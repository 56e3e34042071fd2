// What the makespan is made of: the chain of tasks each of which started when the one before it
// ended, back from the last task to time zero. It has no gaps, so its parts add up to the makespan.
// With worker threads a task may also have waited for the job that held its thread, and its time
// begins with the thread's dispatch.
//
//   CriticalPath path = FindCriticalPath(graph, costs, replay);
//   for (const CriticalShare& share : path.shares) {
//     std::printf("%s %s: %ld ps\n", Name(share.lane), Name(share.phase), share.time_ps);
//   }
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// What a step's start waited for.
enum class StartCause : std::uint8_t {
  kBegin,       // Nothing: time zero.
  kLane,        // The task before it in its lane.
  kData,        // Another predecessor, and none of its lane ended as late.
  kRendezvous,  // A partner that was ready last.
  kThread,      // A worker thread, which another job held.
};
const char* Name(StartCause cause);

struct CriticalStep {
  TaskId task = kNone;
  // The member of the task's rendezvous that was ready last, whose predecessor is the step before;
  // the task itself where it has no rendezvous or was last.
  TaskId started_by = kNone;
  StartCause cause = StartCause::kBegin;
};

// Time of the path spent in tasks of one sort. The time of a task with flows is split in two: its
// fixed time (link kNone), and the rest under the narrowest link of its slowest flow's route, even
// where the flow's own cap is a little below that link (kNone without a route). Of a rendezvous,
// the member counts that is slowest alone. What sharing and interference added counts with the
// flow, or with the fixed time where there is none.
struct CriticalShare {
  TaskKind kind = TaskKind::kCompute;
  Lane lane = Lane::kCompute;
  Phase phase = Phase::kForward;
  std::uint32_t link = kNone;  // Into GraphCosts::links.
  Picoseconds time_ps = 0;     // Including slowed_ps.
  Picoseconds slowed_ps = 0;
  std::uint32_t tasks = 0;
};

struct CriticalPath {
  std::vector<CriticalStep> steps;    // From time zero on.
  std::vector<CriticalShare> shares;  // By falling time; adds up to the makespan.
};

// Expects the costs and the replay of this graph.
CriticalPath FindCriticalPath(const TaskGraph& graph, const GraphCosts& costs,
                              const Replay& replay);

}  // namespace twinstep
