#include "exec/profile/fewer_micro_batches.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "exec/profile/primitive.h"

namespace twinstep {
namespace {

constexpr double kOrdinaryFlopsPerSecond = 30e9;  // One core, OpenBLAS, fp32.

}  // namespace

double EstimateSerialSeconds(const TaskGraph& graph) {
  double flops = 0;
  for (const Task& task : graph.tasks) flops += Flops(graph.shapes[task.shape]);
  return flops / kOrdinaryFlopsPerSecond;
}

Result<LoweredPlan> WithFewestMicroBatches(LoweredPlan lowered, const Cluster& cluster) {
  const std::vector<Primitive> wanted = PrimitivesOf(lowered.graph);
  // Interleaved schedules go through the stages with one micro-batch a rank at a time.
  const std::int64_t step = lowered.plan.v > 1 ? lowered.plan.p : 1;
  for (std::int64_t m = step; m < lowered.plan.m; m += step) {
    ResolvedPlan plan = lowered.plan;
    plan.m = m;
    plan.global_batch = plan.b * plan.d * m;
    Result<LoweredPlan> shorter = LowerForRun(lowered.model, cluster, plan);
    if (!shorter.ok()) return shorter.error();
    if (PrimitivesOf(shorter.value().graph) == wanted) return shorter;
  }
  return lowered;
}

}  // namespace twinstep
