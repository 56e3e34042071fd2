// Iterations of a plan on one batch, to see how long its tasks take. On one thread every
// operator, copy and collective runs alone, but in its place in the graph: what it finds in the
// caches is what the tasks before it have left there.
//
//   Result<std::unique_ptr<PlanRun>> run = PlanRun::Create(lowered, {.threads = 1});
//   Status done = run.value()->RunIteration();
//   TaskTime time = run.value()->Time(task);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
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
  std::string data = {};  // The text whose tokens a run reads; empty: drawn, by Zipf's law.

  // What one run allocates, all ranks and pools.
  std::int64_t ArenaBytes() const;
};

// An Error says why the plan cannot be lowered.
Result<LoweredPlan> LowerForRun(const Model& model, const Cluster& cluster,
                                const ResolvedPlan& plan);

class PlanRun {
 public:
  // Initial weights. `lowered` must outlive the run. An Error (kNo) names the rank and pool that do
  // not fit into memory.
  static Result<std::unique_ptr<PlanRun>> Create(const LoweredPlan& lowered,
                                                 const CpuBackendOptions& options);
  // On any backend that records times; weights of the usual size (exec/runtime/quick_weights.h).
  static Result<std::unique_ptr<PlanRun>> Create(const LoweredPlan& lowered,
                                                 std::unique_ptr<Backend> backend);
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  Status RunIteration();
  // Of the last iteration.
  TaskTime Time(TaskId id) const { return backend_->Time(id); }
  const Backend& backend() const { return *backend_; }

 private:
  PlanRun(const LoweredPlan& lowered, std::unique_ptr<Backend> backend)
      : lowered_(lowered), backend_(std::move(backend)) {}

  Status Prepare(const ExecutorOptions& options);
  Status LoadTokens();

  const LoweredPlan& lowered_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  StepValues step_;
};

}  // namespace twinstep
