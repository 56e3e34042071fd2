// Trains a small model for some steps by a plan, from the same weights and on the same data for
// every plan.
//
//   TrainingRun run(SmallModel("llama", FP64), plan, {.poison = true});
//   Status done = run.Train(5);
//   run.losses(); run.Gather();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/cpu/cpu_backend.h"
#include "exec/runtime/backend.h"
#include "exec/runtime/executor.h"
#include "exec/runtime/logical_tensors.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/arena.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/plan.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

inline constexpr double kLearningRate = 1e-3;

// Two GPUs a node.
Cluster SmallCluster();
// Sequences of 16 tokens, 8 a batch, one a micro-batch, sizes as given; dies if it is no plan.
Plan SmallPlan(std::int64_t t, std::int64_t c, std::int64_t p, std::int64_t d);
ResolvedPlan ResolveOrDie(const Model& model, const Plan& plan);
TaskGraph LowerOrDie(const Model& model, const ResolvedPlan& plan);

struct RunOptions {
  CpuBackendOptions backend{.threads = 2};
  ExecutorOptions executor{};
  std::uint64_t seed = 1;  // Of weights and data.
  // MixingKernel in place of the operators: bits without mathematics.
  bool mixing = false;
  // Another backend in place of the CPU's.
  std::function<std::unique_ptr<Backend>()> make_backend = {};
};

class TrainingRun {
 public:
  TrainingRun(const Model& model, const Plan& plan, const RunOptions& options);
  // Runs this graph of the plan instead, in this arena: a mutated one.
  TrainingRun(const Model& model, const Plan& plan, TaskGraph graph, ArenaPlan arena,
              const RunOptions& options);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Continues where the last call stopped.
  Status Train(int steps);
  // As Train without loading data or reading the loss.
  Status RunOnly();
  void LoadStep();

  const std::vector<double>& losses() const { return losses_; }
  std::vector<LogicalTensor> Gather() const;
  // Of losses and of every rank's pieces of weights, optimizer states and data.
  std::uint64_t HashOfStates() const;

  const Model& model() const { return model_; }
  const TaskGraph& graph() const { return graph_; }
  const ArenaPlan& arena() const { return arena_; }
  const ResolvedPlan& plan() const { return plan_; }
  // Of a run on the CPU.
  CpuBackend& backend() { return static_cast<CpuBackend&>(*backend_); }
  Executor& executor() { return *executor_; }

 private:
  void Start(const RunOptions& options);

  Model model_;
  ResolvedPlan plan_;
  TaskGraph graph_;
  ArenaPlan arena_;
  std::uint64_t seed_ = 1;
  StepValues step_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  std::vector<double> losses_;
};

}  // namespace twinstep
