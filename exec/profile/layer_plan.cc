#include "exec/profile/layer_plan.h"

#include <algorithm>
#include <cstdint>

#include "exec/profile/repeat_layers.h"
#include "sim/graph/arena.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Parameters and gradients of further stages travel beside operators.
constexpr int kMostSerialZero = 1;
// So many times the head's work, so that the GPU gets as hot and runs as fast as in the whole
// model.
constexpr std::int64_t kLayersOverHead = 6;
// What arenas may take of the GPU; the rest is the library kernels' and the driver's.
constexpr double kMemoryShare = 0.9;

// Rows of a layer's weights of the hidden size, as the head's has its vocabulary's.
std::int64_t RowsOfLayer(const Model& model) {
  const std::int64_t products = model.family() == LLAMA ? 3 : 2;
  return 4 * model.hidden_size() + products * model.ffn_hidden_size();
}

std::int64_t FewLayers(const Model& model) {
  const std::int64_t rows = RowsOfLayer(model);
  const std::int64_t layers = (kLayersOverHead * model.vocab_size() + rows - 1) / rows;
  const std::int64_t most = std::max<std::int64_t>(model.layers() / 2, kFewestLayers);
  return std::min<std::int64_t>(model.layers(), std::clamp(layers, kFewestLayers, most));
}

// How often they run in an iteration so that it is like the plan's: long passes through the layers,
// and as large a share of the optimizer.
Repeats RepeatsOf(const LoweredPlan& few, const ResolvedPlan& plan, double most_flops) {
  const std::int64_t layers = plan.v * plan.l;  // Of a rank.
  const auto fit = static_cast<std::int64_t>(most_flops / std::max(1.0, FlopsOfRank(few.graph)));
  const std::int64_t most = std::max<std::int64_t>(1, (layers + few.plan.l - 1) / few.plan.l);
  return {.layers = std::clamp<std::int64_t>(fit, 1, most),
          .optimizer = std::max<std::int64_t>(1, few.plan.m / plan.m)};
}

}  // namespace

double FlopsOfRank(const TaskGraph& graph) {
  double flops = 0;
  for (TaskId id = graph.rank_begin[0]; id < graph.rank_begin[1]; ++id) {
    flops += Flops(graph.shapes[graph.tasks[id].shape]);
  }
  return flops;
}

Result<LoweredPlan> LowerFewLayers(const Model& model, const Cluster& cluster,
                                   const ResolvedPlan& plan, const FewLayersOptions& options) {
  ResolvedPlan few = plan;
  few.gpus = plan.t * plan.c * plan.d;
  few.p = few.v = 1;
  few.schedule = ONE_F_ONE_B;
  // Neither communication nor copies beside operators.
  few.dp_overlap = false;
  few.tp_overlap = TP_OVERLAP_NONE;
  few.zero_stage = std::min(plan.zero_stage, kMostSerialZero);
  few.offload_ratio = 0;
  few.chunks = {};
  few.blocks.clear();
  const auto lower = [&](std::int64_t layers, std::int64_t micro_batches) {
    Model small = model;
    small.set_layers(layers);
    few.l = layers;
    few.m = micro_batches;
    few.global_batch = few.b * few.m * few.d;
    return LowerForRun(small, cluster, few);
  };
  const auto memory_bytes =
      static_cast<std::int64_t>(kMemoryShare * static_cast<double>(cluster.gpu().memory_bytes()));
  std::int64_t needed_bytes = 0;
  for (std::int64_t layers = FewLayers(model); layers > 0; --layers) {
    Result<LoweredPlan> lowered = lower(layers, options.micro_batches);
    if (!lowered.ok()) return lowered;
    const std::int64_t more = std::min(plan.m, kMostMicroBatches);
    if (more > few.m && FlopsOfRank(lowered.value().graph) * static_cast<double>(more) <=
                            options.most_flops * static_cast<double>(few.m)) {
      lowered = lower(layers, more);
      if (!lowered.ok()) return lowered;
    }
    if (options.most_flops > 0) {
      LoweredPlan& long_plan = lowered.value();
      long_plan.graph =
          RepeatLayers(long_plan.graph, layers, RepeatsOf(long_plan, plan, options.most_flops));
      long_plan.arena = PlanArena(long_plan.graph);
    }
    needed_bytes = 0;
    for (const auto& of_rank : lowered.value().arena.arena_bytes) {
      needed_bytes = std::max(needed_bytes, of_rank[static_cast<std::size_t>(Pool::kGpu)]);
    }
    if (memory_bytes == 0 || needed_bytes <= memory_bytes) return lowered;
  }
  return Error{
      .code = ExitCode::kNo,
      .message = StrCat("one layer with micro-batches of ", plan.b, " takes ", needed_bytes,
                        " bytes of GPU memory, ", memory_bytes, " are there"),
      .rule = "gpu-memory",
      .rank = 0,
      .pool = Name(Pool::kGpu),
      .excess_bytes = needed_bytes - memory_bytes};
}

}  // namespace twinstep
