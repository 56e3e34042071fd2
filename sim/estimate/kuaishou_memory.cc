#include "sim/estimate/kuaishou_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "sim/estimate/layer_activations.h"
#include "sim/estimate/model_size.h"
#include "sim/estimate/pipeline_counts.h"
#include "sim/format.h"
#include "sim/plan/placement.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

double Real(std::int64_t value) { return static_cast<double>(value); }

// Blocks that offload cannot remove: the one being made, the one in flight, two reload buffers.
constexpr double kBlocksBesideOffload = 4;

}  // namespace

double DeviceParameters(const Model& model, const ResolvedPlan& plan, std::int64_t r) {
  const double vocabulary = Real(model.vocab_size()) * Real(model.hidden_size());
  double vocabularies = (r == 0 ? 1 : 0) + (r == plan.p - 1 ? 1 : 0);
  if (model.tied_embeddings() && plan.p == 1) vocabularies = 1;
  const double layers = Real(plan.v * plan.l) * Real(LayerParameters(model));
  return (layers + vocabularies * vocabulary) / Real(plan.t);
}

Result<KuaishouMemory> EstimateMemory(const Model& model, const ResolvedPlan& plan,
                                      std::int64_t r) {
  const Result<double> layer_bytes = LayerActivationBytes(model, plan);
  if (!layer_bytes.ok()) return layer_bytes.error();
  const double parameters = DeviceParameters(model, plan, r);
  const double shards = Real(plan.c * plan.d);
  const auto over_shards_from = [&](int stage) { return plan.zero_stage >= stage ? shards : 1; };

  KuaishouMemory memory;
  memory.weights_bytes = parameters * Real(WeightBytes(model.recipe())) / over_shards_from(3);
  memory.gradients_bytes = parameters * Real(GradientBytes(model.recipe())) / over_shards_from(2);
  memory.optimizer_bytes = parameters * Real(OptimizerBytes(model.recipe())) / over_shards_from(1);
  memory.block_bytes = Real(plan.l) * layer_bytes.value();
  memory.living_blocks = Real(LivingBlocks(plan, r));
  const double alpha = plan.offload_ratio;
  memory.gpu_blocks =
      alpha > 0 ? (1 - alpha) * Real(BlocksOnHost(plan, r)) + 2 + 2 * alpha : memory.living_blocks;
  memory.host_bytes = alpha * Real(HostBuffers(plan, r)) * memory.block_bytes;
  return memory;
}

Result<double> SolveOffloadRatio(const Model& model, const ResolvedPlan& plan,
                                 double budget_bytes) {
  ResolvedPlan without = plan;
  without.offload_ratio = 0;
  double ratio = 0;
  for (std::int64_t r = 0; r < plan.p; ++r) {
    const Result<KuaishouMemory> memory = EstimateMemory(model, without, r);
    if (!memory.ok()) return memory.error();
    const KuaishouMemory& m = memory.value();
    const double excess = m.gpu_bytes() - budget_bytes;
    if (excess <= 0) continue;
    const double removable = std::max(m.living_blocks - kBlocksBesideOffload, 0.0) * m.block_bytes;
    if (!(excess <= removable)) {
      const double missing = std::ceil(excess - removable);
      return Error{.code = ExitCode::kNo,
                   .message = StrCat("no offload ratio fits pipeline rank ", r, ": states of ",
                                     Bytes(m.states_bytes()), " and ", m.living_blocks,
                                     " activation blocks of ", Bytes(m.block_bytes),
                                     " exceed the budget of ", Bytes(budget_bytes), " by ",
                                     Bytes(excess), ", offload removes at most ", Bytes(removable)),
                   .rule = "gpu-memory-budget",
                   .rank = r,
                   .pool = "gpu",
                   .excess_bytes = static_cast<std::int64_t>(std::min(missing, 0x1p62))};
    }
    ratio = std::max(ratio, excess / removable);
  }
  return ratio;
}

Result<double> HostBytesOfFullestNode(const Model& model, const ResolvedPlan& plan,
                                      std::int64_t gpus_per_node) {
  std::vector<double> bytes_of_stage;
  for (std::int64_t r = 0; r < plan.p; ++r) {
    const Result<KuaishouMemory> memory = EstimateMemory(model, plan, r);
    if (!memory.ok()) return memory.error();
    bytes_of_stage.push_back(memory.value().host_bytes);
  }
  const Placement placement(plan, gpus_per_node);
  std::map<std::int64_t, double> bytes_of_node;
  double fullest = 0;
  for (std::int64_t rank = 0; rank < plan.gpus; ++rank) {
    double& node = bytes_of_node[placement.NodeOf(rank)];
    node += bytes_of_stage[static_cast<std::size_t>(placement.CoordinatesOf(rank).pp)];
    fullest = std::max(fullest, node);
  }
  return fullest;
}

}  // namespace twinstep
