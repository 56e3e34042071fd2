#include "exec/train/training.h"

#include <google/protobuf/util/message_differencer.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "exec/cpu/cpu_backend.h"
#include "exec/cuda/cuda_options.h"
#include "exec/runtime/batch.h"
#include "exec/runtime/checkpoint.h"
#include "exec/runtime/element_io.h"
#include "exec/runtime/hugging_face.h"
#include "exec/runtime/initialize.h"
#include "exec/runtime/quick_weights.h"
#include "sim/lower/lower.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Name and source of a model say nothing about its numbers.
Status CompareModels(const std::string& path, Model checkpoint, Model asked) {
  for (Model* model : {&checkpoint, &asked}) {
    model->clear_name();
    model->clear_source();
  }
  std::string differences;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&differences);
  if (differencer.Compare(checkpoint, asked)) return Unit{};
  return Error{.message = StrCat(path, ": is a checkpoint of another model:\n", differences)};
}

StepValues StepValuesOf(const TrainInput& input, std::int64_t step, std::uint64_t seed) {
  const Recipe& recipe = input.model.recipe();
  return {.step = step,
          .learning_rate = LearningRate(input.schedule, step),
          .beta1 = input.beta1,
          .beta2 = input.beta2,
          .weight_decay = input.weight_decay,
          .clip_norm = recipe.clip_norm(),
          .hidden_dropout = recipe.hidden_dropout(),
          .attention_dropout = recipe.attention_dropout(),
          .seed = seed};
}

Result<std::unique_ptr<Backend>> MakeBackend(
    const TrainInput& input, const std::shared_ptr<Processes>& processes,
    const std::shared_ptr<cuda::OperatorCache>& operators) {
  if (input.backend == BackendKind::kCuda) {
    return MakeCudaBackend({.processes = processes,
                            .deterministic = input.deterministic,
                            .record_times = input.record_times,
                            .host_threads = input.threads,
                            .memory_limit_bytes = input.gpu_memory_capacity_bytes,
                            .operators = operators});
  }
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(
      CpuBackendOptions{.threads = input.threads, .poison = input.poison}));
}

constexpr double kOthersWait_s = 120;  // For all processes to come.

Result<std::shared_ptr<Processes>> JoinProcesses(const ProcessPlace& place) {
  if (place.size == 1) return std::shared_ptr<Processes>();
  return Processes::Join(place, kOthersWait_s);
}

// What all processes must do alike, or they would wait for each other for ever.
std::map<std::string, std::string> SharedSettings(const TrainInput& input, const TextData& data,
                                                  const TaskGraph& graph, const ArenaPlan& arena) {
  std::map<std::string, std::string> settings = SettingsOf(input, data.checksum());
  settings["model"] = input.model.ShortDebugString();
  settings["save-every"] =
      input.checkpoint_folder.empty() ? "never" : std::to_string(input.checkpoint_every);
  settings["shuffle-seed"] =
      input.shuffle_seed.has_value() ? std::to_string(*input.shuffle_seed) : "none";
  const ResolvedPlan& plan = input.plan;
  std::int64_t bytes = 0;
  for (const auto& pools : arena.arena_bytes) {
    for (const std::int64_t pool : pools) bytes += pool;
  }
  settings["plan"] =
      StrCat("tensor ", plan.t, " x context ", plan.c, " x pipeline ", plan.p, " x data ", plan.d,
             " (order ", plan.rank_order, "), ", graph.TaskCount(), " tasks, ", bytes, " bytes");
  return settings;
}

}  // namespace

Training::Training(const TrainInput& input, TextData data, std::shared_ptr<Processes> processes,
                   std::unique_ptr<Backend> backend)
    : input_(input),
      data_(std::move(data)),
      processes_(std::move(processes)),
      backend_(std::move(backend)) {}

Result<std::unique_ptr<Training>> Training::Start(const TrainInput& input,
                                                  std::vector<std::string>* warnings) {
  // The data's order depends on the seed, which a checkpoint may bring: see SetStates.
  Result<TextData> data = TextData::Open(
      input.data, {.sequence_length = input.plan.sequence_length, .seed = input.seed.value_or(1)});
  if (!data.ok()) return data.error();
  Result<TaskGraph> graph = Lower(input.model, input.cluster, input.plan, {.fold = false});
  if (!graph.ok()) return graph.error();

  Result<std::shared_ptr<Processes>> processes = JoinProcesses(input.processes);
  if (!processes.ok()) return processes.error();
  const std::shared_ptr<cuda::OperatorCache> operators =
      input.backend == BackendKind::kCuda ? MakeOperatorCache() : nullptr;
  Result<std::unique_ptr<Backend>> backend = MakeBackend(input, processes.value(), operators);
  if (!backend.ok()) return backend.error();

  std::unique_ptr<Training> training(new Training(
      input, std::move(data).value(), std::move(processes).value(), std::move(backend).value()));
  training->graph_ = std::move(graph).value();
  training->arena_ = PlanArena(training->graph_);
  if (training->processes_ != nullptr) {
    const Status same = training->processes_->Agree(
        SharedSettings(input, training->data_, training->graph_, training->arena_));
    if (!same.ok()) return same.error();
  }
  Result<std::unique_ptr<Executor>> executor =
      Executor::Create(training->graph_, training->arena_, input.plan, training->backend_.get(),
                       {.shuffle_seed = input.shuffle_seed});
  if (!executor.ok()) return executor.error();
  training->executor_ = std::move(executor).value();
  for (std::string& note : KernelNotes(operators.get())) warnings->push_back(std::move(note));
  const Status set = training->SetStates(warnings);
  if (!set.ok()) return set.error();
  if (training->processes_ != nullptr) {
    const Status same = training->processes_->Agree(
        {{"step", std::to_string(training->step_)}, {"seed", std::to_string(training->seed_)}});
    if (!same.ok()) return same.error();
  }
  return training;
}

Status Training::SetStates(std::vector<std::string>* warnings) {
  seed_ = input_.seed.value_or(1);
  if (!input_.resume.empty()) return Resume(warnings);
  if (input_.quick_weights) {
    WriteQuickWeights(graph_, backend_.get());
    return Unit{};
  }
  const bool shares_cores = input_.threads == 0 && processes_ != nullptr;
  InitializeStates(input_.model, graph_, seed_, backend_.get(),
                   shares_cores ? processes_->cores() : input_.threads);
  if (!input_.init_from.empty()) return SetWeights(input_.init_from);
  return Unit{};
}

Status Training::Resume(std::vector<std::string>* warnings) {
  Result<LoadedCheckpoint> loaded = LoadCheckpoint(input_.resume, warnings);
  if (!loaded.ok()) return loaded.error();
  const Checkpoint& checkpoint = loaded.value().checkpoint;
  const std::string& path = loaded.value().path;
  const Status same_model = CompareModels(path, checkpoint.model, input_.model);
  if (!same_model.ok()) return same_model;
  const auto differs = [&](const std::string& option, const std::string& was,
                           const std::string& is) {
    if (was == is) return;
    warnings->push_back(StrCat("--", option, " was ", was, " when ", path, " was saved, and is ",
                               is, ": the numbers will not be those of an uninterrupted training"));
  };
  seed_ = input_.seed.value_or(checkpoint.seed);
  differs("seed", std::to_string(checkpoint.seed), std::to_string(seed_));
  for (const auto& [option, is] : SettingsOf(input_, data_.checksum())) {
    const auto was = checkpoint.settings.find(option);
    differs(option, was == checkpoint.settings.end() ? "unknown" : was->second, is);
  }
  Result<TextData> data =
      TextData::Open(input_.data, {.sequence_length = input_.plan.sequence_length, .seed = seed_});
  if (!data.ok()) return data.error();
  data_ = std::move(data).value();
  step_ = checkpoint.step;
  const Status restored = ScatterLogical(input_.model, graph_, checkpoint.tensors, backend_.get());
  if (!restored.ok()) return Error{.message = StrCat(path, ": ", restored.error().message)};
  return Unit{};
}

Status Training::SetWeights(const std::string& path) {
  // Doubles hold every type's numbers; what is stored is rounded once.
  const Result<std::vector<LogicalTensor>> weights =
      ReadHuggingFace(input_.model, path, Dtype::kFp64);
  if (!weights.ok()) return weights.error();
  std::map<std::pair<std::uint16_t, TensorKind>, const LogicalTensor*> by_key;
  for (const LogicalTensor& tensor : weights.value()) by_key[{tensor.block, tensor.kind}] = &tensor;
  Result<std::vector<LogicalTensor>> states = Tensors();
  if (!states.ok()) return states.error();
  for (LogicalTensor& tensor : states.value()) {
    const bool is_weight =
        tensor.state == StateKind::kParameter || tensor.state == StateKind::kMaster;
    if (!is_weight) continue;
    const LogicalTensor& given = *by_key.at({tensor.block, tensor.kind});
    for (std::int64_t i = 0; i < tensor.rows * tensor.columns; ++i) {
      StoreElement(tensor.dtype, given.At(i), tensor.data.data(), i);
    }
  }
  return ScatterLogical(input_.model, graph_, states.value(), backend_.get());
}

Result<TrainingStep> Training::RunStep() {
  const auto begin = std::chrono::steady_clock::now();
  const StepValues values = StepValuesOf(input_, step_, seed_);
  const TokenBatch batch = data_.Batch(step_, input_.plan.global_batch);
  const Status loaded =
      LoadBatch(graph_, input_.plan.sequence_length, batch.tokens, batch.labels, backend_.get());
  if (!loaded.ok()) return loaded.error();
  const Status done = executor_->RunIteration(values);
  if (!done.ok()) return done.error();
  ++step_;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const double loss = ReadLoss(graph_, *backend_);
  if (!backend_->error().message.empty()) return backend_->error();
  return TrainingStep{.step = step_,
                      .loss = loss,
                      .learning_rate = values.learning_rate,
                      .tokens = static_cast<std::int64_t>(batch.tokens.size()),
                      .iteration_s = elapsed.count()};
}

Result<std::vector<LogicalTensor>> Training::Tensors() const {
  Result<std::vector<LogicalTensor>> tensors = GatherLogical(input_.model, graph_, *backend_);
  if (!backend_->error().message.empty()) return backend_->error();
  return tensors;
}

Status Training::Save() const {
  Result<std::vector<LogicalTensor>> tensors = Tensors();
  if (!tensors.ok()) return tensors.error();
  if (input_.processes.rank != 0) return WaitForAll();
  const Checkpoint checkpoint{.step = step_,
                              .seed = seed_,
                              .model = input_.model,
                              .settings = SettingsOf(input_, data_.checksum()),
                              .tensors = std::move(tensors).value()};
  const Status saved = SaveCheckpoint(input_.checkpoint_folder, checkpoint, input_.checkpoint_keep);
  return saved.ok() ? WaitForAll() : saved;
}

Status Training::Export(const std::string& path) const {
  const Result<std::vector<LogicalTensor>> tensors = Tensors();
  if (!tensors.ok()) return tensors.error();
  if (input_.processes.rank != 0) return WaitForAll();
  const Status written = WriteHuggingFace(input_.model, tensors.value(), path);
  return written.ok() ? WaitForAll() : written;
}

Status Training::WaitForAll() const {
  if (processes_ == nullptr) return Unit{};
  const Result<std::vector<std::byte>> all = processes_->ShareFirst({});
  if (!all.ok()) return all.error();
  return Unit{};
}

}  // namespace twinstep
