#include "sim/search/plan_replay.h"

#include "sim/cost/framework_costs.h"
#include "sim/cost/fuse_costs.h"
#include "sim/cost/gpu_speeds.h"
#include "sim/engine/engine.h"
#include "sim/graph/arena.h"
#include "sim/graph/fuse.h"
#include "sim/lower/lower.h"
#include "sim/report/summarize.h"
#include "sim/simulate/memory_limits.h"

namespace twinstep {

Result<PlanTime> TimePlan(const SimulateInput& input, const ResolvedPlan& plan) {
  const auto answer = [](const Error& error) -> Result<PlanTime> {
    if (error.code != ExitCode::kNo) return error;
    return PlanTime{.iteration_ps = 0, .infeasible = error};
  };
  const Framework* framework = input.framework ? &*input.framework : nullptr;
  const Profile* profile = input.profile ? &*input.profile : nullptr;
  const Result<TaskGraph> graph =
      Lower(input.model, input.cluster, plan,
            {.fold = !RanksDiffer(profile, input.cluster, plan.gpus), .framework = framework});
  if (!graph.ok()) return answer(graph.error());
  const Result<GraphCosts> costs =
      ComputeFrameworkCosts(graph.value(), input.model, input.cluster, profile, framework);
  if (!costs.ok()) return answer(costs.error());
  const FusedGraph fused = Fuse(graph.value());
  const Result<GraphCosts> fused_costs = FuseCosts(fused, costs.value());
  if (!fused_costs.ok()) return answer(fused_costs.error());
  const Result<Replay> replay = MakeFastEngine()->Run(fused.graph, fused_costs.value());
  if (!replay.ok()) return answer(replay.error());
  return PlanTime{.iteration_ps = replay.value().makespan_ps, .infeasible = std::nullopt};
}

Result<PlanMemory> PlacePlan(const SimulateInput& input, const ResolvedPlan& plan) {
  const Framework* framework = input.framework ? &*input.framework : nullptr;
  const Result<TaskGraph> lowered =
      Lower(input.model, input.cluster, plan, {.framework = framework});
  if (!lowered.ok()) {
    if (lowered.error().code != ExitCode::kNo) return lowered.error();
    return PlanMemory{.infeasible = lowered.error()};
  }
  const TaskGraph& graph = lowered.value();
  const ArenaPeaks peaks = FindArenaPeaks(graph);
  // Judged in the words of a simulation.
  Report report;
  report.cluster = input.cluster;
  report.gpu_memory_capacity_bytes = input.gpu_memory_capacity_bytes;
  report.host_memory_budget_bytes = input.host_memory_budget_bytes;
  RankReport fullest;
  fullest.info = graph.ranks[peaks.fullest_rank];
  PoolReport& gpu = fullest.pools[static_cast<std::size_t>(Pool::kGpu)];
  gpu.arena_bytes = peaks.gpu_bytes;
  gpu.peak_live_bytes = peaks.gpu_live_bytes;
  report.results.emplace();
  report.results->ranks.push_back(fullest);
  report.results->host = SumHostMemory(graph, peaks.host_bytes, plan, input.cluster.node().gpus());
  return PlanMemory{.peak_gpu_bytes = peaks.gpu_bytes,
                    .peak_host_bytes = report.results->host.peak_bytes,
                    .peak_pinned_bytes = report.results->host.pinned_bytes,
                    .infeasible = CheckMemoryLimits(report)};
}

}  // namespace twinstep
