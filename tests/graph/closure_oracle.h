// Which edges of a graph are needed, found by brute force: no vector clocks, no last writers.
//
// Pairs of tasks of a rank that must be ordered: any two accesses to a buffer, however far apart,
// of which one writes; and neighbours in a lane. An edge is needed if some such pair has no path
// from the earlier to the later task without it.
#pragma once

#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

class ClosureOracle {
 public:
  // Keeps a reference. The graph must be one that Verify accepts.
  explicit ClosureOracle(const TaskGraph& graph);

  // Whether a path inside the rank leads from one task to the other. Linear time.
  bool Precedes(TaskId before, TaskId after) const;

  // Whether the graph without this edge leaves a pair unordered. Linear time where another path
  // joins the edge's tasks, or where they are themselves such a pair; else quadratic at worst.
  bool IsNeeded(TaskId source, TaskId target) const;

 private:
  struct Access {
    TaskId task;
    bool writes;
  };

  // By task of the rank (minus the rank's first): whether `from` reaches it, itself included. With
  // `without_source`, the edge from it to `without_target` is left out.
  std::vector<bool> Reach(TaskId from, TaskId without_source, TaskId without_target) const;
  std::vector<bool> ReachBackward(TaskId from) const;
  // Tasks after `task` that must be ordered after it.
  std::vector<TaskId> MustFollow(TaskId task) const;

  const TaskGraph& graph_;
  std::vector<std::vector<Access>> accesses_;      // By buffer, in issue order.
  std::vector<TaskId> next_in_lane_;               // By task.
  std::vector<std::vector<TaskId>> predecessors_;  // By task.
};

}  // namespace twinstep
