// What dispatch costs: iterations whose operators do nothing, by threads. Reports tasks a second.

#include <benchmark/benchmark.h>

#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

void Dispatch(benchmark::State& state) {
  Plan plan = SmallPlan(2, 2, 2, 2);
  RunOptions options;
  options.backend.threads = static_cast<int>(state.range(0));
  options.backend.kernel = [](TaskId, const KernelCall&) {};
  TrainingRun run(SmallModel("gpt", FP32), plan, options);
  run.LoadStep();
  for (auto _ : state) {
    if (!run.RunOnly().ok()) state.SkipWithError("iteration failed");
  }
  state.counters["tasks_per_s"] = benchmark::Counter(static_cast<double>(run.graph().tasks.size()),
                                                     benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(Dispatch)->Arg(1)->Arg(2)->Arg(4)->UseRealTime();

// The operators of a small model, for the share of dispatch in it.
void Train(benchmark::State& state) {
  RunOptions options;
  options.backend.threads = static_cast<int>(state.range(0));
  TrainingRun run(SmallModel("gpt", FP32), SmallPlan(2, 2, 2, 2), options);
  run.LoadStep();
  for (auto _ : state) {
    if (!run.RunOnly().ok()) state.SkipWithError("iteration failed");
  }
  state.counters["tasks_per_s"] = benchmark::Counter(static_cast<double>(run.graph().tasks.size()),
                                                     benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(Train)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace twinstep

BENCHMARK_MAIN();
