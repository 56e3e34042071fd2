#include "sim/search/plan_replay.h"

#include <algorithm>
#include <memory>

#include "sim/cost/fuse_costs.h"
#include "sim/engine/engine.h"
#include "sim/graph/arena.h"
#include "sim/graph/fuse.h"
#include "sim/lower/lower.h"
#include "sim/report/summarize.h"
#include "sim/simulate/memory_limits.h"

namespace twinstep {
namespace {

// The same answers, in the same words, as a simulation of the plan.
void CheckMemory(const SimulateInput& input, const ResolvedPlan& plan, const TaskGraph& graph,
                 PlanReplay* replay) {
  const ArenaPlan arena = PlanArena(graph);
  Report report;
  report.cluster = input.cluster;
  report.gpu_memory_capacity_bytes = input.gpu_memory_capacity_bytes;
  report.host_memory_budget_bytes = input.host_memory_budget_bytes;
  SimulationResults results;
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    RankReport x;
    x.info = graph.ranks[rank];
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      x.pools[pool].arena_bytes = arena.arena_bytes[rank][pool];
      x.pools[pool].peak_live_bytes = arena.live_bound_bytes[rank][pool];
    }
    replay->peak_gpu_bytes = std::max(replay->peak_gpu_bytes, x.pools[0].arena_bytes);
    results.ranks.push_back(x);
  }
  results.host = SumHostMemory(graph, arena, plan, input.cluster.node().gpus());
  replay->peak_host_bytes = results.host.peak_bytes;
  report.results = std::move(results);
  replay->infeasible = CheckMemoryLimits(report);
  replay->memory_known = true;
}

}  // namespace

Result<PlanReplay> ReplayPlan(const SimulateInput& input, const ResolvedPlan& plan,
                              const ReplayLimits& limits) {
  const Result<TaskGraph> graph = Lower(input.model, input.cluster, plan);
  if (!graph.ok()) return graph.error();
  const Profile* profile = input.profile ? &*input.profile : nullptr;
  const Result<GraphCosts> costs = ComputeCosts(graph.value(), input.model, input.cluster, profile);
  if (!costs.ok()) return costs.error();
  PlanReplay result;
  {
    const FusedGraph fused = Fuse(graph.value());
    const Result<GraphCosts> fused_costs = FuseCosts(fused, costs.value());
    if (!fused_costs.ok()) return fused_costs.error();
    const Result<Replay> replay = MakeFastEngine()->Run(fused.graph, fused_costs.value());
    if (!replay.ok()) {
      if (replay.error().code != ExitCode::kNo) return replay.error();
      result.infeasible = replay.error();
      return result;
    }
    result.iteration_ps = replay.value().makespan_ps;
  }
  if (result.iteration_ps <= limits.slowest_ps) {
    CheckMemory(input, plan, graph.value(), &result);
  }
  return result;
}

}  // namespace twinstep
