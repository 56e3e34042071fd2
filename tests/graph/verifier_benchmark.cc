// Speed of the verifier on one core; items are tasks. The bar is 1 M tasks in under 2 s:
//
//   bazel run //tests/graph:verifier_benchmark
#include <benchmark/benchmark.h>

#include "sim/graph/verifier.h"
#include "tests/graph/random_graph.h"

namespace twinstep {
namespace {

const TaskGraph& MillionTasks() {
  static const TaskGraph graph = RandomGraph({.seed = 1, .ranks = 64, .tasks = 1'000'000});
  return graph;
}

void CountTasks(benchmark::State& state, const TaskGraph& graph) {
  state.SetItemsProcessed(state.iterations() * std::int64_t{graph.TaskCount()});
  state.counters["edges"] = graph.EdgeCount();
}

void BM_Verify(benchmark::State& state) {
  const TaskGraph& graph = MillionTasks();
  for (auto _ : state) {
    const std::optional<Violation> violation = Verify(graph);
    if (violation.has_value()) state.SkipWithError(violation->message.c_str());
  }
  CountTasks(state, graph);
}
BENCHMARK(BM_Verify)->Unit(benchmark::kMillisecond);

void BM_VectorClocks(benchmark::State& state) {
  const TaskGraph& graph = MillionTasks();
  for (auto _ : state) benchmark::DoNotOptimize(VectorClocks(graph));
  CountTasks(state, graph);
}
BENCHMARK(BM_VectorClocks)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace twinstep

BENCHMARK_MAIN();
