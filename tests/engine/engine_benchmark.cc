// Tasks a second of the engines on half a million tasks of a training-like graph.
//
//   bazel run //tests/engine:engine_benchmark
//
// `tasks/s` counts whole replays: checks, indices, replay, result. `bytes/task` is the most heap
// memory that a replay holds at once, its result included, beyond the graph and the costs.
#include <benchmark/benchmark.h>

#include <memory>

#include "sim/engine/engine.h"
#include "tests/engine/heap_meter.h"
#include "tests/engine/training_graph.h"

namespace twinstep {
namespace {

// 32 ranks, 5 tasks a block and direction: 522 k tasks.
TrainingGraphOptions Options() {
  return {.tensor = 4,
          .data = 1,
          .pipeline = 8,
          .micro_batches = 80,
          .blocks = 20,
          .computes = 4,
          .offload = true,
          .forward_ps = 100'000'000,
          .backward_ps = 200'000'000,
          .latency_ps = 10'000'000,
          .message_bytes = 64 << 20,
          .collective_bytes = 16 << 20,
          .offload_bytes = 256 << 20};
}

void Measure(benchmark::State& state, const TrainingGraphOptions& options, Engine* engine) {
  if (engine == nullptr) {
    state.SkipWithError("built without this engine");
    return;
  }
  const TrainingGraph training = MakeTrainingGraph(options);
  const std::int64_t before = HeapBytes();
  ResetHeapPeak();
  for (auto _ : state) {
    const Result<Replay> replay = engine->Run(training.graph, training.costs);
    if (!replay.ok()) {
      state.SkipWithError(replay.error().message.c_str());
      return;
    }
    benchmark::DoNotOptimize(replay.value().makespan_ps);
  }
  const auto tasks = static_cast<double>(training.graph.TaskCount());
  state.counters["tasks"] = tasks;
  state.counters["tasks/s"] =
      benchmark::Counter(tasks, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bytes/task"] = static_cast<double>(HeapPeakBytes() - before) / tasks;
}

TrainingGraphOptions SharedInterferingOptions() {
  TrainingGraphOptions options = Options();
  options.data = 2;  // The gradient sum shares NVLink with tensor parallelism.
  options.pipeline = 4;
  options.slow_uplinks = true;
  options.interference = true;
  return options;
}

void Fast(benchmark::State& state) { Measure(state, Options(), MakeFastEngine().get()); }
BENCHMARK(Fast)->Unit(benchmark::kMillisecond);

void FastSharedInterfering(benchmark::State& state) {
  Measure(state, SharedInterferingOptions(), MakeFastEngine().get());
}
BENCHMARK(FastSharedInterfering)->Unit(benchmark::kMillisecond);

void Simgrid(benchmark::State& state) { Measure(state, Options(), MakeSimgridEngine().get()); }
// The work is done in a child process: real time counts.
BENCHMARK(Simgrid)->Unit(benchmark::kMillisecond)->UseRealTime();

void SimgridSharedInterfering(benchmark::State& state) {
  Measure(state, SharedInterferingOptions(), MakeSimgridEngine().get());
}
BENCHMARK(SimgridSharedInterfering)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace twinstep

BENCHMARK_MAIN();
