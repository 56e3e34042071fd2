// Which activations of a layer are worth keeping: every set of stored tensors, its memory against
// the time to rebuild the rest in the backward (Yuan et al., ATC 2024, figures 5,
// 6).
//
//   const CheckpointFront front = FindCheckpointFront(input, plan).value();
//   front.sets[front.knee].stored  // {"q", "kv", "attention_out", ...}: the balanced set.
//
// What is rebuilt, from what and by which operations is the lowering's own rule; an operation that
// rebuilds several tensors runs once. The layer's input is always kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/resolved_plan.h"
#include "sim/result.h"
#include "sim/simulate/simulate_input.h"

namespace twinstep {

struct CheckpointSet {
  std::vector<std::string> stored;   // Of StorableTensors.
  std::vector<std::string> dropped;  // The others.
  std::int64_t bytes = 0;            // Stored by one layer for one micro-batch on one rank.
  double recompute_s = 0;            // More than with everything stored.
};

struct CheckpointFront {
  // No set needs less memory and less time than one of these; by falling memory.
  std::vector<CheckpointSet> sets;
  // The set farthest below the straight line between the ends, both axes counted from end to end:
  // beyond it memory is dear, before it time.
  std::size_t knee = 0;
  CheckpointSet full;             // RECOMPUTE_FULL: stores nothing, reruns the whole forward.
  double forward_backward_s = 0;  // Of the layer with everything stored.
  std::size_t tried = 0;

  // Whether full recomputation is on the front: no set as small takes less time.
  bool FullIsOnFront() const;
};

// Sizes, attention and sequence parallelism are the plan's. An Error as Lower and ComputeCosts.
Result<CheckpointFront> FindCheckpointFront(const SimulateInput& input, const ResolvedPlan& plan);

}  // namespace twinstep
