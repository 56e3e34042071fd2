// Speed of the arena pass and of the memory timeline. `ratio` is the largest arena / live bound.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "sim/graph/arena.h"
#include "sim/graph/memory_timeline.h"
#include "tests/graph/pipeline_graph.h"

namespace twinstep {
namespace {

// Ranks, micro-batches, virtual stages, layers a stage, offload.
PipelineGraphOptions Options(const benchmark::State& state) {
  return {.ranks = static_cast<int>(state.range(0)),
          .micro_batches = static_cast<int>(state.range(1)),
          .virtual_stages = static_cast<int>(state.range(2)),
          .layers_per_stage = static_cast<int>(state.range(3)),
          .offload = state.range(4) != 0};
}

void Describe(benchmark::State& state, const TaskGraph& graph) {
  state.counters["tasks"] = static_cast<double>(graph.tasks.size());
  state.counters["buffers"] = static_cast<double>(graph.buffers.size());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.tasks.size()));
}

void BM_PlanArena(benchmark::State& state) {
  const TaskGraph graph = MakePipelineGraph(Options(state));
  double ratio = 0;
  for (auto _ : state) {
    const ArenaPlan plan = PlanArena(graph);
    for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      ratio = std::max(ratio, static_cast<double>(plan.arena_bytes[rank][0]) /
                                  static_cast<double>(plan.live_bound_bytes[rank][0]));
    }
  }
  Describe(state, graph);
  state.counters["ratio"] = ratio;
}

void BM_MeasureMemory(benchmark::State& state) {
  const TaskGraph graph = MakePipelineGraph(Options(state));
  std::vector<std::int64_t> start, end;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    start.push_back(static_cast<std::int64_t>(i) * 1000);
    end.push_back(start.back() + 1000);
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(MeasureMemory(graph, start, end, {.max_points = 500}));
  }
  Describe(state, graph);
}

constexpr auto kUnit = benchmark::kMillisecond;
BENCHMARK(BM_PlanArena)
    ->Args({8, 32, 1, 4, 0})
    ->Args({8, 32, 2, 4, 0})
    ->Args({8, 48, 1, 6, 1})
    ->Args({64, 64, 1, 4, 0})
    ->Args({64, 256, 1, 9, 0})
    ->Args({1, 16, 1, 256, 0})
    ->Args({1, 64, 1, 256, 0})
    ->Unit(kUnit);
BENCHMARK(BM_MeasureMemory)->Args({8, 32, 2, 4, 0})->Args({64, 64, 1, 4, 0})->Unit(kUnit);

}  // namespace
}  // namespace twinstep

BENCHMARK_MAIN();
