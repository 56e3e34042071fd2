// Tasks a second of ComputeCosts, on the main job: Llama-65B, 256 H800, (t, c, p, l) = (2, 2, 8,
// 2), balanced recomputation, half of the activations offloaded.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iostream>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/cost/graph_costs.h"
#include "sim/lower/lower.h"
#include "sim/plan/placement.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {
namespace {

template <typename T>
T Need(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::cerr << result.error().message << "\n";
  std::exit(1);
}

ResolvedPlan MainPlan(const Model& model, const Cluster& cluster) {
  Plan plan;
  plan.set_tensor_parallel(2);
  plan.set_context_parallel(2);
  plan.set_pipeline_parallel(8);
  plan.set_layers_per_stage(2);
  plan.set_global_batch(256);
  plan.set_sequence_length(8192);
  plan.set_recompute(RECOMPUTE_BALANCED);
  plan.set_offload_ratio(0.5);
  return Need(ResolvePlan(model, cluster, plan, 256));
}

void BM_ComputeCosts(benchmark::State& state) {
  const Model model = Need(FindModel("llama-65b"));
  const Cluster cluster = Need(FindCluster("h800"));
  const TaskGraph graph =
      Need(Lower(model, cluster, MainPlan(model, cluster), {.fold = state.range(0) != 0}));
  for (auto _ : state) {
    GraphCosts costs = Need(ComputeCosts(graph, model, cluster, nullptr));
    benchmark::DoNotOptimize(costs);
    state.counters["costs"] = static_cast<double>(costs.costs.size());
    state.counters["links"] = static_cast<double>(costs.links.size());
  }
  state.counters["tasks"] = static_cast<double>(graph.TaskCount());
  state.SetItemsProcessed(state.iterations() * graph.TaskCount());
}
BENCHMARK(BM_ComputeCosts)->ArgName("folded")->Arg(1)->Arg(0)->Unit(benchmark::kMillisecond);

// 4032 GPUs whose stages of 252 straddle nodes.
void BM_SymmetryClasses(benchmark::State& state) {
  ResolvedPlan plan;
  plan.t = 4;
  plan.c = 7;
  plan.d = 9;
  plan.p = 16;
  plan.gpus = 4032;
  const Cluster cluster = Need(FindCluster("jean-zay-a100"));
  const Placement placement(plan, cluster.node().gpus());
  for (auto _ : state) {
    RankClasses classes = SymmetryClasses(placement, plan, cluster);
    benchmark::DoNotOptimize(classes);
    state.counters["classes"] = static_cast<double>(classes.size.size());
  }
}
BENCHMARK(BM_SymmetryClasses)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace twinstep

BENCHMARK_MAIN();
