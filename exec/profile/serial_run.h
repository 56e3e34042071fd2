// Iterations of a plan, task after task on one thread: every operator, copy and collective runs
// alone, in its place in the graph. What a task finds in the caches is then what it finds in
// training, its operands' producer and the work in between.
//
//   Result<std::unique_ptr<SerialRun>> run = SerialRun::Create(lowered);
//   Status done = run.value()->RunIteration();
//   TaskTime time = run.value()->Time(task);
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "exec/cpu/cpu_backend.h"
#include "exec/runtime/executor.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/arena.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// A plan made ready to run; several runs may share it.
struct LoweredPlan {
  Model model;
  ResolvedPlan plan;
  TaskGraph graph;  // Unfolded.
  ArenaPlan arena;

  // What one run allocates, all ranks and pools.
  std::int64_t ArenaBytes() const;
};

// An Error says why the plan cannot be lowered.
Result<LoweredPlan> LowerForRun(const Model& model, const Cluster& cluster,
                                const ResolvedPlan& plan);

class SerialRun {
 public:
  // Initial weights, random tokens. `lowered` must outlive the run. An Error (kNo) names the rank
  // and pool that do not fit into memory.
  // `kernel` computes in place of RunKernel, where given.
  using Kernel = std::function<void(TaskId, const KernelCall&)>;
  static Result<std::unique_ptr<SerialRun>> Create(const LoweredPlan& lowered, Kernel kernel = {});
  SerialRun(const SerialRun&) = delete;
  SerialRun& operator=(const SerialRun&) = delete;

  Status RunIteration();
  // Of the last iteration.
  TaskTime Time(TaskId id) const { return backend_.Time(id); }

 private:
  SerialRun(const LoweredPlan& lowered, Kernel kernel)
      : lowered_(lowered), backend_({.threads = 1, .kernel = std::move(kernel)}) {}

  Status LoadRandomBatch();

  const LoweredPlan& lowered_;
  CpuBackend backend_;
  std::unique_ptr<Executor> executor_;
  StepValues step_;
};

}  // namespace twinstep
