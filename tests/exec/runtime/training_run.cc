#include "tests/exec/runtime/training_run.h"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

#include "exec/runtime/batch.h"
#include "exec/runtime/initialize.h"
#include "sim/graph/symbolic_tensors.h"
#include "sim/lower/lower.h"
#include "tests/exec/runtime/mixing_kernel.h"

namespace twinstep {
namespace {

constexpr std::int64_t kSequence = 16;
constexpr std::int64_t kGlobalBatch = 8;

template <typename T>
T ValueOrDie(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::abort();
  }
  return std::move(result).value();
}

}  // namespace

Cluster SmallCluster() {
  Cluster cluster;
  cluster.set_name("small");
  cluster.set_nodes(64);
  cluster.mutable_gpu()->set_attention_backward_fp32_dq(true);
  cluster.mutable_node()->set_gpus(2);
  cluster.mutable_node()->mutable_nic()->set_count(2);
  return cluster;
}

Plan SmallPlan(std::int64_t t, std::int64_t c, std::int64_t p, std::int64_t d) {
  Plan plan;
  plan.set_tensor_parallel(t);
  plan.set_context_parallel(c);
  plan.set_pipeline_parallel(p);
  plan.set_data_parallel(d);
  plan.set_sequence_length(kSequence);
  plan.set_micro_batch(1);
  plan.set_global_batch(kGlobalBatch);
  return plan;
}

ResolvedPlan ResolveOrDie(const Model& model, const Plan& plan) {
  const std::int64_t gpus = plan.tensor_parallel() * plan.context_parallel() *
                            plan.pipeline_parallel() * plan.data_parallel();
  return ValueOrDie(ResolvePlan(model, SmallCluster(), plan, gpus));
}

TaskGraph LowerOrDie(const Model& model, const ResolvedPlan& plan) {
  return ValueOrDie(Lower(model, SmallCluster(), plan, {.fold = false}));
}

TrainingRun::TrainingRun(const Model& model, const Plan& plan, const RunOptions& options)
    : model_(model), plan_(ResolveOrDie(model, plan)), graph_(LowerOrDie(model, plan_)) {
  arena_ = PlanArena(graph_);
  Start(options);
}

TrainingRun::TrainingRun(const Model& model, const Plan& plan, TaskGraph graph, ArenaPlan arena,
                         const RunOptions& options)
    : model_(model),
      plan_(ResolveOrDie(model, plan)),
      graph_(std::move(graph)),
      arena_(std::move(arena)) {
  Start(options);
}

void TrainingRun::Start(const RunOptions& options) {
  seed_ = options.seed;
  if (options.make_backend) {
    backend_ = options.make_backend();
  } else {
    CpuBackendOptions backend_options = options.backend;
    if (options.mixing) backend_options.kernel = MixingKernel(graph_);
    backend_ = std::make_unique<CpuBackend>(backend_options);
  }
  executor_ = ValueOrDie(Executor::Create(graph_, arena_, plan_, backend_.get(), options.executor));
  InitializeStates(model_, graph_, seed_, backend_.get());
  step_.learning_rate = kLearningRate;
  step_.weight_decay = 0.1;
  step_.clip_norm = model_.recipe().clip_norm();
  step_.hidden_dropout = model_.recipe().hidden_dropout();
  step_.attention_dropout = model_.recipe().attention_dropout();
  step_.seed = seed_;
}

void TrainingRun::LoadStep() {
  std::mt19937_64 random(seed_ * 1000 + static_cast<std::uint64_t>(step_.step));
  std::vector<std::int32_t> tokens, labels;
  for (std::int64_t i = 0; i < plan_.global_batch * plan_.sequence_length; ++i) {
    const auto vocabulary = static_cast<std::uint64_t>(model_.vocab_size());
    tokens.push_back(static_cast<std::int32_t>(random() % vocabulary));
    labels.push_back(static_cast<std::int32_t>(random() % vocabulary));
  }
  ValueOrDie(LoadBatch(graph_, plan_.sequence_length, tokens, labels, backend_.get()));
}

Status TrainingRun::RunOnly() {
  Status done = executor_->RunIteration(step_);
  ++step_.step;
  return done;
}

Status TrainingRun::Train(int steps) {
  for (int i = 0; i < steps; ++i) {
    LoadStep();
    const Status done = RunOnly();
    if (!done.ok()) return done;
    losses_.push_back(ReadLoss(graph_, *backend_));
  }
  return Unit{};
}

std::vector<LogicalTensor> TrainingRun::Gather() const {
  return ValueOrDie(GatherLogical(model_, graph_, *backend_));
}

std::uint64_t TrainingRun::HashOfStates() const {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a.
  const auto add = [&hash](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
    }
  };
  const std::vector<TensorPlace> places = PlaceTensors(graph_);
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
    bytes.resize(static_cast<std::size_t>(places[i].bytes));
    backend_->Read(graph_.tensors[i].buffer, places[i].offset, bytes);
    add(bytes);
  }
  add(std::as_bytes(std::span(losses_)));
  return hash;
}

}  // namespace twinstep
