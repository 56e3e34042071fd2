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
  return EstimateMemory(model, plan, r, layer_bytes.value());
}

KuaishouMemory EstimateMemory(const Model& model, const ResolvedPlan& plan, std::int64_t r,
                              double layer_bytes) {
  const double parameters = DeviceParameters(model, plan, r);
  const double shards = Real(plan.c * plan.d);
  const auto over_shards_from = [&](int stage) { return plan.zero_stage >= stage ? shards : 1; };

  KuaishouMemory memory;
  memory.weights_bytes = parameters * Real(WeightBytes(model.recipe())) / over_shards_from(3);
  memory.gradients_bytes = parameters * Real(GradientBytes(model.recipe())) / over_shards_from(2);
  memory.optimizer_bytes = parameters * Real(OptimizerBytes(model.recipe())) / over_shards_from(1);
  memory.block_bytes = Real(plan.l) * layer_bytes;
  memory.living_blocks = Real(LivingBlocks(plan, r));
  const double alpha = plan.offload_ratio;
  memory.gpu_blocks =
      alpha > 0 ? (1 - alpha) * Real(BlocksOnHost(plan, r)) + 2 + 2 * alpha : memory.living_blocks;
  memory.host_bytes = alpha * Real(HostBuffers(plan, r)) * memory.block_bytes;
  return memory;
}

namespace {

// At ratio 0, and what offload can remove of it.
struct Unoffloaded {
  KuaishouMemory memory;
  double excess_bytes = 0;
  double removable_bytes = 0;

  Unoffloaded(const Model& model, const ResolvedPlan& plan, std::int64_t r, double budget_bytes,
              double layer_bytes)
      : memory(EstimateMemory(model, plan, r, layer_bytes)) {
    // The plan's own ratio is not read.
    memory.gpu_blocks = memory.living_blocks;
    excess_bytes = memory.gpu_bytes() - budget_bytes;
    removable_bytes =
        std::max(memory.living_blocks - kBlocksBesideOffload, 0.0) * memory.block_bytes;
  }
};

}  // namespace

OffloadNeed FindOffloadNeed(const Model& model, const ResolvedPlan& plan, double budget_bytes,
                            double layer_bytes) {
  OffloadNeed need;
  const auto visit = [&](std::int64_t r) {
    const Unoffloaded rank(model, plan, r, budget_bytes, layer_bytes);
    if (rank.excess_bytes <= 0) return;
    if (!(rank.excess_bytes <= rank.removable_bytes)) {
      need.short_rank = r;
      need.short_bytes = rank.excess_bytes - rank.removable_bytes;
      return;
    }
    need.ratio = std::max(need.ratio, rank.excess_bytes / rank.removable_bytes);
  };
  // Ranks between the first and the last hold the same states and ever fewer blocks: where the
  // first of them fits, it asks for most (its states and four blocks leave room in the budget).
  for (const std::int64_t r : {std::int64_t{0}, std::int64_t{1}, plan.p - 1}) {
    if (need.fits() && r < plan.p) visit(r);
  }
  return need;
}

Result<double> SolveOffloadRatio(const Model& model, const ResolvedPlan& plan,
                                 double budget_bytes) {
  const Result<double> layer_bytes = LayerActivationBytes(model, plan);
  if (!layer_bytes.ok()) return layer_bytes.error();
  const OffloadNeed need = FindOffloadNeed(model, plan, budget_bytes, layer_bytes.value());
  if (need.fits()) return need.ratio;
  const std::int64_t r = need.short_rank;
  const Unoffloaded rank(model, plan, r, budget_bytes, layer_bytes.value());
  const KuaishouMemory& m = rank.memory;
  return Error{
      .code = ExitCode::kNo,
      .message =
          StrCat("no offload ratio fits pipeline rank ", r, ": states of ", Bytes(m.states_bytes()),
                 " and ", m.living_blocks, " activation blocks of ", Bytes(m.block_bytes),
                 " exceed the budget of ", Bytes(budget_bytes), " by ", Bytes(rank.excess_bytes),
                 ", offload removes at most ", Bytes(rank.removable_bytes)),
      .rule = "gpu-memory-budget",
      .rank = r,
      .pool = "gpu",
      .excess_bytes = static_cast<std::int64_t>(std::min(std::ceil(need.short_bytes), 0x1p62))};
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
