// Trains by the task graph: dispatches one iteration after another to a backend.
//
//   const TaskGraph graph = Lower(model, cluster, plan, {.fold = false}).value();
//   const ArenaPlan arena = PlanArena(graph);
//   CpuBackend backend({.threads = 4});
//   std::unique_ptr<Executor> executor =
//       std::move(Executor::Create(graph, arena, plan, &backend, {})).value();
//   InitializeStates(model, graph, /*seed=*/1, &backend);
//   for (step.step = 0; step.step < steps; ++step.step) {
//     LoadBatch(graph, plan.sequence_length, tokens, labels, &backend);
//     Status done = executor->RunIteration(step);
//     double loss = ReadLoss(graph, backend);
//   }
//
// Tasks are issued in the issue order of their ranks, ranks in turn; only what another lane must
// wait for costs an event. Nothing is allocated during an iteration.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/runtime/backend.h"
#include "exec/runtime/issue_order.h"
#include "exec/runtime/program.h"
#include "sim/graph/arena.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

struct ExecutorOptions {
  // Dispatches in another order each iteration, drawn at random among the legal (lanes stay FIFO):
  // where an edge is missing, results change.
  std::optional<std::uint64_t> shuffle_seed = std::nullopt;
  // An iteration in which nothing finishes for so long is given up.
  double stall_limit_s = 60;
  // Proves the graph a correct program first (sim/graph/verifier.h).
  bool verify = true;
};

// When the tasks of an iteration ran, by task, since its begin.
struct Execution {
  std::vector<std::int64_t> ready_ps;  // The task's own predecessors had ended.
  std::vector<std::int64_t> start_ps, end_ps;
  std::int64_t iteration_ps = 0;
};

class Executor {
 public:
  // Graph, arena and backend must outlive the executor. Prepares the backend.
  static Result<std::unique_ptr<Executor>> Create(const TaskGraph& graph, const ArenaPlan& arena,
                                                  const ResolvedPlan& plan, Backend* backend,
                                                  const ExecutorOptions& options);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // An Error (kInternal) that says which ranks, lanes and tasks wait for what (rule "stall") if
  // nothing progresses, or the backend's. The executor cannot go on after it.
  Status RunIteration(const StepValues& step);

  // Of the last iteration.
  Execution LastExecution() const;

 private:
  Executor(Program program, Backend* backend, const ExecutorOptions& options)
      : program_(std::make_shared<const Program>(std::move(program))),
        backend_(backend),
        options_(options) {}

  void Issue(TaskId first);

  std::shared_ptr<const Program> program_;
  Backend* backend_;
  ExecutorOptions options_;
  std::optional<IssueOrder> order_;
  std::optional<Error> broken_;
};

}  // namespace twinstep
