// Tasks a second of the engines on half a million tasks of a training-like graph.
//
//   bazel run //tests/engine:engine_benchmark
//
// `tasks/s` counts whole replays by CPU time (Simgrid's child process included), with checks,
// indices and result: it is what one core does, however busy the machine. `bytes/task` is the most
// heap memory that a replay holds at once, its result included, beyond the graph and the costs.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <memory>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
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

double CpuSeconds() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage;
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    }
  }
  return seconds;
}

void Measure(benchmark::State& state, const TaskGraph& graph, const GraphCosts& costs,
             Engine* engine) {
  if (engine == nullptr) {
    state.SkipWithError("built without this engine");
    return;
  }
  const std::int64_t before = HeapBytes();
  ResetHeapPeak();
  for (auto _ : state) {
    const double start = CpuSeconds();
    const Result<Replay> replay = engine->Run(graph, costs);
    state.SetIterationTime(CpuSeconds() - start);
    if (!replay.ok()) {
      state.SkipWithError(replay.error().message.c_str());
      return;
    }
    benchmark::DoNotOptimize(replay.value().makespan_ps);
  }
  const auto tasks = static_cast<double>(graph.TaskCount());
  state.counters["tasks"] = tasks;
  state.counters["tasks/s"] =
      benchmark::Counter(tasks, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bytes/task"] = static_cast<double>(HeapPeakBytes() - before) / tasks;
}

void Measure(benchmark::State& state, const TrainingGraphOptions& options, Engine* engine) {
  const TrainingGraph training = MakeTrainingGraph(options);
  Measure(state, training.graph, training.costs, engine);
}

TrainingGraphOptions SharedInterferingOptions() {
  TrainingGraphOptions options = Options();
  options.data = 2;  // The gradient sum shares NVLink with tensor parallelism.
  options.pipeline = 4;
  options.shared_links = true;
  options.interference = true;
  return options;
}

void Fast(benchmark::State& state) { Measure(state, Options(), MakeFastEngine().get()); }
BENCHMARK(Fast)->Unit(benchmark::kMillisecond)->UseManualTime();

void FastSharedInterfering(benchmark::State& state) {
  Measure(state, SharedInterferingOptions(), MakeFastEngine().get());
}
BENCHMARK(FastSharedInterfering)->Unit(benchmark::kMillisecond)->UseManualTime();

// H2D of a host's GPUs yield to their D2H.
Profile YieldingCopies() {
  Profile profile;
  for (const std::int64_t up : {0, 1, 8}) {
    for (const std::int64_t down : {0, 1, 8}) {
      HostCopySample* const sample = profile.add_host_copies();
      sample->set_up(up);
      sample->set_down(down);
      sample->set_bytes(50'000'000);
      if (up > 0) sample->set_h2d_s(1e-3 + 1e-4 * static_cast<double>(up + down));
      if (down > 0) sample->set_d2h_s(1e-3);
    }
  }
  return profile;
}

// What the main job replays: Llama-65B on H800, (t, c, p, l) = (2, 2, 8, 2), balanced recompute,
// 35 % offloaded.
void Llama65B(benchmark::State& state, std::int64_t gpus, bool fold, Engine* engine,
              const Profile* profile = nullptr) {
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
  const TaskGraph graph = Lower(model, cluster, resolved, {.fold = fold}).value();
  const GraphCosts costs = ComputeCosts(graph, model, cluster, profile).value();
  Measure(state, graph, costs, engine);
}

void FastLlama65BFolded256(benchmark::State& state) {
  Llama65B(state, 256, true, MakeFastEngine().get());
}
BENCHMARK(FastLlama65BFolded256)->Unit(benchmark::kMillisecond)->UseManualTime();

void FastLlama65BUnfolded32(benchmark::State& state) {
  Llama65B(state, 32, false, MakeFastEngine().get());
}
BENCHMARK(FastLlama65BUnfolded32)->Unit(benchmark::kMillisecond)->UseManualTime();

void FastLlama65BUnfolded32YieldingCopies(benchmark::State& state) {
  const Profile profile = YieldingCopies();
  Llama65B(state, 32, false, MakeFastEngine().get(), &profile);
}
BENCHMARK(FastLlama65BUnfolded32YieldingCopies)->Unit(benchmark::kMillisecond)->UseManualTime();

void SimgridLlama65BFolded256(benchmark::State& state) {
  Llama65B(state, 256, true, MakeSimgridEngine().get());
}
BENCHMARK(SimgridLlama65BFolded256)->Unit(benchmark::kMillisecond)->UseManualTime();

void Simgrid(benchmark::State& state) { Measure(state, Options(), MakeSimgridEngine().get()); }
BENCHMARK(Simgrid)->Unit(benchmark::kMillisecond)->UseManualTime();

void SimgridSharedInterfering(benchmark::State& state) {
  Measure(state, SharedInterferingOptions(), MakeSimgridEngine().get());
}
BENCHMARK(SimgridSharedInterfering)->Unit(benchmark::kMillisecond)->UseManualTime();

}  // namespace
}  // namespace twinstep

BENCHMARK_MAIN();
