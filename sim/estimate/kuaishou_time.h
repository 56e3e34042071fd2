// Iteration time in closed form: equations 6, 9 and 12-17 of Yuan et al., USENIX ATC 2024
// (Yuan et al., ATC 2024), from a handful of measured or modelled primitives. It orders
// candidates and is shown beside a replay; it proves no bound.
//
//   const KuaishouTime time = EstimateTime(model, plan, primitives).value();
//   time.total_s();
#pragma once

#include "model_zoo/model.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// For one micro-batch on one GPU, with the plan's t and c, tensor- and context-parallel
// communication included.
struct KuaishouPrimitives {
  double layer_forward_s = 0;         // T_F.
  double layer_backward_s = 0;        // T_B, without recomputation.
  double layer_recompute_s = 0;       // T_ckpt of the plan's recompute (full: T_F).
  double embedding_forward_s = 0;     // T_embF, first stage.
  double embedding_backward_s = 0;    // T_embB.
  double head_forward_s = 0;          // T_postF, last stage: norm, head, loss.
  double head_backward_s = 0;         // T_postB.
  double p2p_s = 0;                   // T_p2p, one message between stages.
  double d2h_bytes_per_s = 0;         // BW_DtoH with both directions and all GPUs copying.
  double h2d_bytes_per_s = 0;         // BW_HtoD likewise. 0 is allowed where nothing is offloaded.
  double optimizer_bytes_per_s = 0;   // BW_opt: gradients reduce-scattered, weights gathered;
                                      // 0 where c d = 1.
  double adam_params_per_s = 53.4e9;  // omega_adam, H800.
  double p2p_slowdown = 0.05;         // beta_p2p.
  double offload_slowdown_s_per_byte = 0.0016 / 1e9;  // beta_offload, 0.0016 s a GB.
};

struct KuaishouTime {
  double warmup_s = 0;     // Eq 12.
  double steady_s = 0;     // Eq 13.
  double cooldown_s = 0;   // Eq 14.
  double optimizer_s = 0;  // Eq 15.
  double offload_s = 0;    // Eq 9: copies that compute does not hide.
  double slowdown_s = 0;   // Eq 16: compute that copies and transfers slow down.

  double total_s() const {  // Eq 17.
    return warmup_s + steady_s + cooldown_s + optimizer_s + offload_s + slowdown_s;
  }
};

// Error as EstimateMemory (RECOMPUTE_CUSTOM), or kBadInput if something is offloaded or reduced
// and its bandwidth is 0.
Result<KuaishouTime> EstimateTime(const Model& model, const ResolvedPlan& plan,
                                  const KuaishouPrimitives& primitives);

// The same with eq 4 or 10 for one layer (LayerActivationBytes) known: no allocation, for searches.
Result<KuaishouTime> EstimateTime(const Model& model, const ResolvedPlan& plan,
                                  const KuaishouPrimitives& primitives, double layer_bytes);

// Eq 6, the paper's table 3: m v l (T_F + T_B) (1 + (p - 1) / (v m)).
double ApproximateTime_s(const ResolvedPlan& plan, const KuaishouPrimitives& primitives);

}  // namespace twinstep
