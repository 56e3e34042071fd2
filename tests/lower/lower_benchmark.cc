// Lowering speed, tasks/s of one core (bar: 3 M):
//   bazel run //tests/lower:lower_benchmark

#include <benchmark/benchmark.h>

#include <cstdlib>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

// Llama-65B on 256 H800, (t, c, p, l) = (2, 2, 8, 2), balanced recompute, 35 % offloaded.
void Llama65B(benchmark::State& state, std::int64_t gpus, bool fold) {
  const Model model = FindModel("llama-65b").value();
  const Cluster cluster = FindCluster("h800").value();
  Plan plan;
  plan.set_tensor_parallel(2);
  plan.set_context_parallel(2);
  plan.set_pipeline_parallel(8);
  plan.set_layers_per_stage(2);
  plan.set_global_batch(gpus);
  plan.set_sequence_length(8192);
  plan.set_recompute(RECOMPUTE_BALANCED);
  plan.set_offload_ratio(0.35);
  const ResolvedPlan resolved = ResolvePlan(model, cluster, plan, gpus).value();
  std::int64_t tasks = 0;
  for (auto _ : state) {
    const TaskGraph graph = Lower(model, cluster, resolved, {.fold = fold}).value();
    tasks += graph.TaskCount();
    benchmark::DoNotOptimize(graph.tasks.data());
  }
  state.counters["tasks/s"] =
      benchmark::Counter(static_cast<double>(tasks), benchmark::Counter::kIsRate);
  state.counters["tasks"] = static_cast<double>(tasks) / static_cast<double>(state.iterations());
}

BENCHMARK_CAPTURE(Llama65B, folded_256_gpus, 256, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Llama65B, unfolded_32_gpus, 32, false)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace twinstep

BENCHMARK_MAIN();
