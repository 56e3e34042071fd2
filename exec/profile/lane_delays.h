// How long tasks of GPUs wait besides for what they depend on, from when they ran: for the event of
// another lane, and where ranks meet for that of another GPU.
//
//   LaneDelays delays(run.graph());
//   Status done = run.Measure(seconds, [&] {
//     delays.AddIteration([&](TaskId id) { return run.Time(id); });
//   });
//   profile.set_lane_handoff_s(delays.HandoffSeconds());
#pragma once

#include <functional>
#include <vector>

#include "exec/runtime/backend.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

class LaneDelays {
 public:
  // The graph must outlive this.
  explicit LaneDelays(const TaskGraph& graph);

  // Times of all tasks.
  void AddIteration(const std::function<TaskTime(TaskId)>& time);

  // The median time from the end of the last task that one waits for, where that is of another lane
  // of its rank, until it begins. 0: there is none such.
  double HandoffSeconds() const;
  // The median time from when all members of a rendezvous could begin until they do. GPUs' clocks
  // differ: it is the time of the member that waits least, the last to come. 0: none meet.
  double MeetingSeconds() const;

 private:
  // Of one task of one iteration, in nanoseconds: ends of what it waits for, -1: of nothing.
  struct Begin {
    double lane_end = -1, other_end = -1, start = 0;
  };

  Begin BeginOf(TaskId id, const std::vector<TaskTime>& times) const;

  const TaskGraph& graph_;
  std::vector<std::vector<TaskId>> others_;   // By task: predecessors in other lanes.
  std::vector<TaskId> before_;                // By task: the one before it in its lane.
  std::vector<std::vector<TaskId>> members_;  // By rendezvous, of several ranks.
  std::vector<double> handoffs_ns_;
  std::vector<std::vector<Begin>> meetings_;  // Their members.
};

}  // namespace twinstep
