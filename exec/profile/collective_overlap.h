// What operators and collectives of the same GPUs do to each other, from when they ran.
//
// Most operators fill a GPU. A collective that is a kernel then waits until the operators that run
// at its begin have ended, on all ranks, and operators that come meanwhile wait for it; one that
// the copy engines do waits for none. A mean of times that hold such waiting is nobody's: how long
// it is depends on what happened to run. So both are told apart here; sums, and gathers that copy
// their own shard, of all sizes of a group alike, as TurnVotes has it.
//
//   CollectiveOverlap overlap(run.graph(), [&](TaskId id) { return run.PrimitiveOfTask(id); });
//   Status done = run.Measure(seconds, [&] {
//     overlap.AddIteration([&](TaskId id) { return run.Time(id); });
//   });
//   const CollectiveOverlap::Times times = overlap.Finish();
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "exec/profile/primitive.h"
#include "exec/profile/repeated_run.h"
#include "exec/runtime/backend.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

class CollectiveOverlap {
 public:
  // The graph must outlive this. Null where a task has no primitive.
  CollectiveOverlap(const TaskGraph& graph,
                    const std::function<const Primitive*(TaskId)>& primitive_of);

  // Times of all tasks.
  void AddIteration(const std::function<TaskTime(TaskId)>& time);

  // A collective or message beside operators.
  struct Company {
    bool waits = false;  // For the operators that run when it begins.
    // Of the time that it then takes, how much operators lose: 1 = they stand still.
    double takes = 0;
  };
  struct Times {
    // By iteration. Operators while no collective is under way but such as still wait; collectives
    // and messages while no operator runs on any of their ranks.
    Means alone;
    // Collectives and messages beside operators, without what they waited.
    Means beside;
    std::map<Primitive, Company> company;  // Of those in `beside`.
    // Time of operators, over time alone, beside collectives that leave them most of the GPU.
    std::map<Primitive, double> slowdowns;
    // After how many seconds operators have let a collective begin that waits for them and holds up
    // the next: their last thread blocks leave room. One that ends at E and takes A alone began at
    // E - A, as far as the operator is concerned.
    std::map<Primitive, double> lets_in_s;
  };
  // `alone_s`: what is known of collectives that never run alone here.
  Times Finish(const std::map<Primitive, double>& alone_s = {}) const;

 private:
  const TaskGraph& graph_;
  std::vector<Primitive> primitives_;
  std::vector<std::uint32_t> primitive_;           // By task, into primitives_; kNone: it has none.
  std::vector<std::vector<TaskTime>> iterations_;  // By task.
};

// Whether collectives take turns with operators (CollectiveSample.takes_turns) is the backend's
// matter, one for all sizes of a group. Sums say so: copies of an all-gather that has nothing to
// copy on its own GPU wait for nothing.
class TurnVotes {
 public:
  void Add(const Primitive& collective, bool waits) {
    int& votes = Sums(collective.shape.op) ? of_sums_ : of_copies_;
    votes += waits ? 1 : -1;
  }
  bool TakeTurns() const { return of_sums_ > 0 || (of_sums_ == 0 && of_copies_ > 0); }

 private:
  int of_sums_ = 0, of_copies_ = 0;  // Those that wait less those that do not.
};

}  // namespace twinstep
