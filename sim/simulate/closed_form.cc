#include "sim/simulate/closed_form.h"

#include "sim/estimate/kuaishou_memory.h"
#include "sim/estimate/kuaishou_primitives.h"
#include "sim/estimate/kuaishou_time.h"

namespace twinstep {
namespace {

Result<ClosedFormReport> PipelineForm(const Model& model, const ResolvedPlan& plan,
                                      const ReplayedPlan& replayed) {
  const KuaishouPrimitives x = MeasurePrimitives(replayed.graph, replayed.costs, model, plan);
  const Result<KuaishouTime> time = EstimateTime(model, plan, x);
  if (!time.ok()) return time.error();
  const Result<KuaishouMemory> memory = EstimateMemory(model, plan, 0);
  if (!memory.ok()) return memory.error();
  const KuaishouTime& t = time.value();
  const KuaishouMemory& m = memory.value();
  ClosedFormReport form;
  form.paper = "Yuan et al., ATC 2024";
  form.iteration_s = t.total_s();
  form.times = {
      {.name = "layer forward", .source = "T_F", .value = x.layer_forward_s},
      {.name = "layer backward", .source = "T_B", .value = x.layer_backward_s},
      {.name = "layer recompute", .source = "T_ckpt", .value = x.layer_recompute_s},
      {.name = "message", .source = "T_p2p", .value = x.p2p_s},
      {.name = "warm-up", .source = "eq 12", .value = t.warmup_s, .in_total = true},
      {.name = "steady", .source = "eq 13", .value = t.steady_s, .in_total = true},
      {.name = "cooldown", .source = "eq 14", .value = t.cooldown_s, .in_total = true},
      {.name = "optimizer", .source = "eq 15", .value = t.optimizer_s, .in_total = true},
      {.name = "offload", .source = "eq 9", .value = t.offload_s, .in_total = true},
      {.name = "slow-down", .source = "eq 16", .value = t.slowdown_s, .in_total = true},
  };
  form.peak_gpu_bytes = m.gpu_bytes();
  form.memory = {
      {.name = "weights", .source = "eq 2", .value = m.weights_bytes, .in_total = true},
      {.name = "gradients", .source = "eq 2", .value = m.gradients_bytes, .in_total = true},
      {.name = "optimizer", .source = "eq 3", .value = m.optimizer_bytes, .in_total = true},
      {.name = "activations", .source = "eq 7", .value = m.activations_bytes(), .in_total = true},
  };
  return form;
}

}  // namespace

Result<ClosedFormReport> ClosedForm(const Model& model, const ResolvedPlan& plan,
                                    const ReplayedPlan& replayed) {
  return PipelineForm(model, plan, replayed);
}

}  // namespace twinstep
