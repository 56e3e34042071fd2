#include "exec/profile/plan_run.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>

#include "exec/runtime/batch.h"
#include "exec/runtime/initialize.h"
#include "exec/runtime/quick_weights.h"
#include "exec/runtime/text_data.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

constexpr std::uint64_t kSeed = 1;
// Weights stay as drawn: after many steps on one batch they would be alike in all rows, and
// products of such numbers take less power, which is speed at a GPU's power limit.
constexpr double kLearningRate = 0;
constexpr double kWeightDecay = 0.1;

TokenBatch DrawTokens(std::int64_t count, std::int64_t vocabulary) {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> uniform(0, 1);
  TokenBatch batch;
  for (std::int64_t i = 0; i < count; ++i) {
    // Probability about 1 / (token + 1): the n-th most frequent word of a text (Zipf 1949).
    const double token = std::pow(static_cast<double>(vocabulary), uniform(random)) - 1;
    batch.tokens.push_back(static_cast<std::int32_t>(token));
  }
  batch.labels.assign(batch.tokens.begin() + 1, batch.tokens.end());
  batch.labels.push_back(batch.tokens.front());
  return batch;
}

}  // namespace

std::int64_t LoweredPlan::ArenaBytes() const {
  std::int64_t bytes = 0;
  for (const auto& pools : arena.arena_bytes) {
    for (const std::int64_t pool : pools) bytes += pool;
  }
  return bytes;
}

Result<LoweredPlan> LowerForRun(const Model& model, const Cluster& cluster,
                                const ResolvedPlan& plan) {
  Result<TaskGraph> graph = Lower(model, cluster, plan, {.fold = false});
  if (!graph.ok()) return graph.error();
  LoweredPlan lowered{.model = model, .plan = plan, .graph = std::move(graph).value(), .arena = {}};
  lowered.arena = PlanArena(lowered.graph);
  return lowered;
}

Result<std::unique_ptr<PlanRun>> PlanRun::Create(const LoweredPlan& lowered,
                                                 const CpuBackendOptions& options) {
  std::unique_ptr<PlanRun> run(new PlanRun(lowered, std::make_unique<CpuBackend>(options)));
  if (const Status prepared = run->Prepare({}); !prepared.ok()) return prepared.error();
  InitializeStates(lowered.model, lowered.graph, kSeed, run->backend_.get());
  return run;
}

Result<std::unique_ptr<PlanRun>> PlanRun::Create(const LoweredPlan& lowered,
                                                 std::unique_ptr<Backend> backend) {
  std::unique_ptr<PlanRun> run(new PlanRun(lowered, std::move(backend)));
  // What is measured is timed, not trained; graphs of probes have no edges.
  if (const Status prepared = run->Prepare({.verify = false}); !prepared.ok()) {
    return prepared.error();
  }
  WriteQuickWeights(lowered.graph, run->backend_.get());
  return run;
}

Status PlanRun::Prepare(const ExecutorOptions& options) {
  Result<std::unique_ptr<Executor>> executor =
      Executor::Create(lowered_.graph, lowered_.arena, lowered_.plan, backend_.get(), options);
  if (!executor.ok()) return executor.error();
  executor_ = std::move(executor).value();
  const Recipe& recipe = lowered_.model.recipe();
  step_.learning_rate = kLearningRate;
  step_.weight_decay = kWeightDecay;
  step_.clip_norm = recipe.clip_norm();
  step_.hidden_dropout = recipe.hidden_dropout();
  step_.attention_dropout = recipe.attention_dropout();
  step_.seed = kSeed;
  return LoadTokens();
}

Status PlanRun::LoadTokens() {
  TokenBatch batch;
  if (lowered_.data.empty()) {
    batch = DrawTokens(lowered_.plan.global_batch * lowered_.plan.sequence_length,
                       lowered_.model.vocab_size());
  } else {
    Result<TextData> data = TextData::Open(
        lowered_.data, {.sequence_length = lowered_.plan.sequence_length, .seed = kSeed});
    if (!data.ok()) return data.error();
    batch = data.value().Batch(/*step=*/0, lowered_.plan.global_batch);
  }
  return LoadBatch(lowered_.graph, lowered_.plan.sequence_length, batch.tokens, batch.labels,
                   backend_.get());
}

Status PlanRun::RunIteration() {
  Status done = executor_->RunIteration(step_);
  ++step_.step;
  return done;
}

}  // namespace twinstep
