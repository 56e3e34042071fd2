#include "sim/estimate/kuaishou_time.h"

#include <algorithm>

#include "sim/estimate/kuaishou_memory.h"
#include "sim/estimate/layer_activations.h"
#include "sim/estimate/model_size.h"
#include "sim/estimate/pipeline_counts.h"

namespace twinstep {
namespace {

double Real(std::int64_t value) { return static_cast<double>(value); }
double Exposed(double copy_s, double compute_s) { return std::max(copy_s - compute_s, 0.0); }

// Stage times of the plan and the counts of eqs 9 and 12-14.
struct Phases {
  double forward_s, backward_s;  // Of the l layers of a stage, recomputation included.
  double stages_ahead;           // v p - 1.
  double steady;                 // m v - v p + p.

  Phases(const ResolvedPlan& plan, const KuaishouPrimitives& x)
      : forward_s(Real(plan.l) * x.layer_forward_s),
        backward_s(Real(plan.l) * (x.layer_backward_s + x.layer_recompute_s)),
        stages_ahead(Real(plan.v * plan.p - 1)),
        steady(Real(plan.m * plan.v - plan.v * plan.p + plan.p)) {}
};

double OffloadExposed_s(const ResolvedPlan& plan, const KuaishouPrimitives& x, const Phases& phases,
                        double copied_bytes) {
  const double out_s = copied_bytes / x.d2h_bytes_per_s;
  const double in_s = copied_bytes / x.h2d_bytes_per_s;
  const double beside_embedding = Real(plan.p - 1);
  const double others = std::max(Real(plan.v * plan.p - plan.p - 1), 0.0);
  const double warmup =
      beside_embedding * Exposed(out_s, x.embedding_forward_s + phases.forward_s) +
      others * Exposed(out_s, phases.forward_s);
  const double steady =
      phases.steady * Exposed(std::max(out_s, in_s), phases.forward_s + phases.backward_s);
  const double cooldown =
      others * Exposed(in_s, phases.backward_s) +
      beside_embedding * Exposed(in_s, phases.backward_s + x.embedding_backward_s);
  return warmup + steady + cooldown;
}

}  // namespace

Result<KuaishouTime> EstimateTime(const Model& model, const ResolvedPlan& plan,
                                  const KuaishouPrimitives& x) {
  const Result<double> layer_bytes = LayerActivationBytes(model, plan);
  if (!layer_bytes.ok()) return layer_bytes.error();
  return EstimateTime(model, plan, x, layer_bytes.value());
}

Result<KuaishouTime> EstimateTime(const Model& model, const ResolvedPlan& plan,
                                  const KuaishouPrimitives& x, double layer_bytes) {
  const Phases phases(plan, x);
  const double p2p_s = plan.p > 1 ? x.p2p_s : 0;

  KuaishouTime time;
  time.warmup_s =
      Real(plan.p) * x.embedding_forward_s + phases.stages_ahead * (phases.forward_s + p2p_s);
  time.steady_s = phases.steady * (phases.forward_s + phases.backward_s) +
                  Real(plan.m) * (x.head_forward_s + x.head_backward_s);
  time.cooldown_s =
      Real(plan.p) * x.embedding_backward_s + phases.stages_ahead * (phases.backward_s + p2p_s);

  const double parameters = DeviceParameters(model, plan, 0);
  const double shards = Real(plan.c * plan.d);
  time.optimizer_s = parameters / (shards * x.adam_params_per_s);
  if (shards > 1) {
    if (!(x.optimizer_bytes_per_s > 0)) {
      return Error{.message = "closed form: optimizer_bytes_per_s is 0 with c d > 1"};
    }
    // Gradients reduce-scattered and weights gathered: 6 bytes with the paper's recipe.
    const double bytes = Real(GradientBytes(model.recipe()) + WeightBytes(model.recipe()));
    time.optimizer_s += bytes * parameters / x.optimizer_bytes_per_s;
  }

  time.slowdown_s = x.p2p_slowdown * Real(P2pTransfers(plan)) * p2p_s;
  if (plan.offload_ratio > 0) {
    if (!(x.d2h_bytes_per_s > 0 && x.h2d_bytes_per_s > 0)) {
      return Error{.message = "closed form: a copy bandwidth is 0 with an offload ratio above 0"};
    }
    const double copied_bytes = plan.offload_ratio * Real(plan.l) * layer_bytes;
    time.offload_s = OffloadExposed_s(plan, x, phases, copied_bytes);
    time.slowdown_s +=
        2 * x.offload_slowdown_s_per_byte * Real(OverlappedCopies(plan)) * copied_bytes;
  }
  return time;
}

double ApproximateTime_s(const ResolvedPlan& plan, const KuaishouPrimitives& x) {
  const double layer_s = x.layer_forward_s + x.layer_backward_s + x.layer_recompute_s;
  return Real(plan.m * plan.v * plan.l) * layer_s * (1 + BubbleFraction(plan));
}

}  // namespace twinstep
