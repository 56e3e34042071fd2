// Memory in closed form: equations 1-5, 7, 8 and 10 of Yuan et al., "Accelerating the training of
// large language models using efficient activation rematerialization and optimal hybrid
// parallelism", USENIX ATC 2024. As published: no norms, no padding, no
// temporaries, no allocator. The arena pass gives the exact figure of a graph.
//
//   Result<KuaishouMemory> memory = EstimateMemory(model, plan, 0);
//   if (memory.ok()) std::cout << memory.value().gpu_bytes();
//   Result<double> alpha = SolveOffloadRatio(model, plan, 65000.0 * (1 << 20));
//
// Eq 4 covers the Llama family; for the GPT family and for unfused attention the layer's bytes are
// Korthikanti et al.'s (see layer_activations.h).
#pragma once

#include <cstdint>

#include "model_zoo/model.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// P(r): parameters on a GPU of pipeline rank r. A tied embedding lies on the first and the last
// rank of a pipeline, and once where that is one rank.
double DeviceParameters(const Model& model, const ResolvedPlan& plan, std::int64_t r);

struct KuaishouMemory {
  double weights_bytes = 0;  // With gradients_bytes: M_w, eq 2 (6 bytes a parameter).
  double gradients_bytes = 0;
  double optimizer_bytes = 0;  // M_o, eq 3 (12 bytes a parameter over c d).
  double block_bytes = 0;      // M_ab, eq 4 or l times eq 10.
  double living_blocks = 0;    // v p + p - 2 r - 1.
  double gpu_blocks = 0;       // In eq 7: (1 - alpha)(living - 2) + 2 + 2 alpha; living without.
  double host_bytes = 0;       // Eq 8 for one GPU: alpha (living - 1) M_ab, in pinned buffers.

  double states_bytes() const { return weights_bytes + gradients_bytes + optimizer_bytes; }
  double activations_bytes() const { return gpu_blocks * block_bytes; }
  double gpu_bytes() const { return states_bytes() + activations_bytes(); }  // Eq 7.
};

// Of a GPU of pipeline rank r at plan.offload_ratio. Error for RECOMPUTE_CUSTOM. ZeRO stages beyond
// the paper's 1 also shard gradients (2) and weights (3) over c d.
Result<KuaishouMemory> EstimateMemory(const Model& model, const ResolvedPlan& plan, std::int64_t r);

// The same with eq 4 or 10 for one layer (LayerActivationBytes) known: no allocation, for searches.
KuaishouMemory EstimateMemory(const Model& model, const ResolvedPlan& plan, std::int64_t r,
                              double layer_bytes);

// The ratio that SolveOffloadRatio finds, or why there is none.
struct OffloadNeed {
  double ratio = 0;
  std::int64_t short_rank = -1;  // First pipeline rank that no ratio helps; -1: all fit.
  double short_bytes = 0;        // That it lacks even with everything offloaded.
  bool fits() const { return short_rank < 0; }
};
OffloadNeed FindOffloadNeed(const Model& model, const ResolvedPlan& plan, double budget_bytes,
                            double layer_bytes);

// The least offload ratio at which eq 7 fits the budget on every pipeline rank: 0 if nothing must
// go. plan.offload_ratio is not read. If no ratio suffices: ExitCode::kNo, rule
// "gpu-memory-budget", with rank and excess bytes.
Result<double> SolveOffloadRatio(const Model& model, const ResolvedPlan& plan, double budget_bytes);

// Host memory of the fullest node, eq 8 summed over its GPUs.
Result<double> HostBytesOfFullestNode(const Model& model, const ResolvedPlan& plan,
                                      std::int64_t gpus_per_node);

}  // namespace twinstep
