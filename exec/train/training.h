// A training on this machine: graph, backend, data, and its state from step to step.
//
//   Result<std::unique_ptr<Training>> training = Training::Start(input, &warnings);
//   while (training.value()->step() < input.schedule.steps) {
//     Result<TrainingStep> step = training.value()->RunStep();
//     std::cout << step.value().loss << "\n";
//   }
//   Status saved = training.value()->Save();
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/runtime/backend.h"
#include "exec/runtime/executor.h"
#include "exec/runtime/logical_tensors.h"
#include "exec/runtime/processes.h"
#include "exec/runtime/text_data.h"
#include "exec/train/train_input.h"
#include "sim/graph/arena.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

struct TrainingStep {
  std::int64_t step = 0;  // From 1.
  double loss = 0;        // Mean of the batch, in nats a token, before the step.
  double learning_rate = 0;
  std::int64_t tokens = 0;
  double iteration_s = 0;  // With the loading of the batch.
};

class Training {
 public:
  // Lowers the plan, allocates, and sets weights and optimizer: drawn, read from a file, or those
  // of a checkpoint. Warnings say which attentions cuDNN does not compute, which checkpoints were
  // skipped and what differs from the training that was interrupted. An Error names the file or
  // option.
  static Result<std::unique_ptr<Training>> Start(const TrainInput& input,
                                                 std::vector<std::string>* warnings);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Steps that are done.
  std::int64_t step() const { return step_; }
  Result<TrainingStep> RunStep();

  // Parameters, masters and moments of the whole model.
  Result<std::vector<LogicalTensor>> Tensors() const;
  // A checkpoint into the input's folder. Of several processes all call it, the first writes, and
  // the others wait for it.
  Status Save() const;
  // Weights with Hugging Face's names. As Save.
  Status Export(const std::string& path) const;
  // Until all processes have called it, as they must before they end: who ends earlier is missed.
  Status WaitForAll() const;

  const TaskGraph& graph() const { return graph_; }
  const ArenaPlan& arena() const { return arena_; }
  const Executor& executor() const { return *executor_; }
  const Backend& backend() const { return *backend_; }

 private:
  Training(const TrainInput& input, TextData data, std::shared_ptr<Processes> processes,
           std::unique_ptr<Backend> backend);

  Status SetStates(std::vector<std::string>* warnings);
  Status Resume(std::vector<std::string>* warnings);
  Status SetWeights(const std::string& path);

  const TrainInput input_;
  TextData data_;
  std::shared_ptr<Processes> processes_;  // Null: this one alone.
  TaskGraph graph_;
  ArenaPlan arena_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;  // Last: it uses the others.
  std::uint64_t seed_ = 1;
  std::int64_t step_ = 0;
};

}  // namespace twinstep
