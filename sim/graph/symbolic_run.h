// Runs an unfolded task graph on symbolic values (sim/graph/symbolic_value.h).
//
// Executes each rank's tasks in issue order and joins a rendezvous when its last member arrives, so
// it presumes what the verifier proves (hazards ordered, no rendezvous cycle); bytes shared between
// buffers are the arena pass's. It notices wrong or stale operands, shards that are missing,
// repeated or out of order, incomplete sums, tensors cut wrongly, and ranks that end with different
// weights.
//
// Errors have code kNo, rule "symbolic" and the rank, and name task, operand, found and expected. A
// malformed graph (ids out of range, folded) is kBadInput.
#pragma once

#include <span>

#include "sim/graph/symbolic_ops.h"
#include "sim/graph/symbolic_tensors.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// Sees every compute and host operation after it ran.
class SymbolicObserver {
 public:
  virtual ~SymbolicObserver() = default;
  virtual void OnOperation(TaskId task, std::span<const SymbolicOperand> reads,
                           std::span<const SymbolicOperand> writes) = 0;
};

Result<SymbolicResult> RunSymbolic(const TaskGraph& graph, SymbolicObserver* observer = nullptr);

}  // namespace twinstep
