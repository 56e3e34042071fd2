#include "exec/profile/layer_plan.h"

#include <algorithm>
#include <cstdint>

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

}  // namespace

Result<LoweredPlan> LowerFewLayers(const Model& model, const Cluster& cluster,
                                   const ResolvedPlan& plan, std::int64_t micro_batches) {
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
  few.m = micro_batches;
  few.global_batch = few.b * few.m * few.d;
  const auto memory_bytes =
      static_cast<std::int64_t>(kMemoryShare * static_cast<double>(cluster.gpu().memory_bytes()));
  std::int64_t needed_bytes = 0;
  for (std::int64_t layers = FewLayers(model); layers > 0; --layers) {
    Model small = model;
    small.set_layers(layers);
    few.l = layers;
    Result<LoweredPlan> lowered = LowerForRun(small, cluster, few);
    if (!lowered.ok()) return lowered;
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
