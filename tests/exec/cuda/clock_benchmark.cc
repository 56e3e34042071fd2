// How a GPU's speed changes with the time since it rested: under a power limit clocks are high at
// first, then they fall, and for how long depends on what came before.
//
//   clock_benchmark cuda|cpu MODEL.textproto MICRO_BATCH [SECONDS]
//
// A few layers of the model train as `twinstep profile` has them. For each rest, and for each time
// of computing between it and the iteration that is looked at (up to SECONDS, 2), prints how long
// the operators of that iteration take, in windows of 50 ms, in percent of what they take after 2
// SECONDS of computing. At the end how long it takes to ask the device for an iteration's times,
// which is a rest, too.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_backend.h"
#include "exec/cuda/cuda_options.h"
#include "exec/profile/layer_plan.h"
#include "exec/profile/repeated_run.h"
#include "exec/profile/statistics.h"
#include "exec/profile/task_seconds.h"
#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/plan/plan.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/textproto/quantity.h"
#include "sim/textproto/text_file.h"
#include "tests/exec/cuda/value_or_die.h"

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWindow_s = 0.05;
constexpr double kIteration_s = 0.5;
constexpr int kRepeats = 3;
const std::vector<double> kRests_s = {0, 0.02, 0.06, 0.25};

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class ClockBenchmark {
 public:
  ClockBenchmark(bool on_gpu, const Model& model, std::int64_t micro_batch, double most_s)
      : on_gpu_(on_gpu), most_s_(most_s) {
    Plan plan;
    plan.set_micro_batch(micro_batch);
    plan.set_global_batch(4 * micro_batch);
    plan.set_sequence_length(model.max_sequence_length());
    Cluster cluster;
    cluster.set_nodes(1);
    cluster.mutable_node()->set_gpus(1);
    const ResolvedPlan resolved = ValueOrDie(ResolvePlan(model, cluster, plan, 1));
    // As fast as a first, short graph shows, so long that an iteration takes kIteration_s.
    const LoweredPlan once = ValueOrDie(LowerFewLayers(model, cluster, resolved));
    RepeatedRun first(once, Options());
    ValueOrDie(first.Start(/*fill_buffers=*/false));
    ValueOrDie(first.WarmUp(0.5));
    const double flops_per_s = FlopsOfRank(once.graph) / first.IterationSeconds();
    run_ = std::make_unique<RepeatedRun>(
        ValueOrDie(
            LowerFewLayers(model, cluster, resolved, {.most_flops = kIteration_s * flops_per_s})),
        Options());
  }

  void Run() {
    ValueOrDie(run_->Start(/*fill_buffers=*/false));
    ValueOrDie(run_->WarmUp(2 * most_s_));
    ReadTimes();
    steady_s_ = seconds_;
    std::printf("rest s  then s  percent of steady, by %.0f ms\n", kWindow_s * 1e3);
    for (const double rest_s : kRests_s) {
      for (double after_s = 0; after_s <= most_s_; after_s += kIteration_s) Look(rest_s, after_s);
    }
    const Clock::time_point begin = Clock::now();
    ReadTimes();
    std::printf("to read the times of %u tasks: %.1f ms\n", run_->graph().TaskCount(),
                Since(begin) * 1e3);
  }

 private:
  RepeatedRunOptions Options() const {
    return {.make_backend = [on_gpu = on_gpu_]() -> Result<std::unique_ptr<Backend>> {
      if (on_gpu) return MakeCudaBackend({.record_times = true, .gpu_a_rank = true});
      return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(CpuBackendOptions{}));
    }};
  }

  void Look(double rest_s, double after_s) {
    std::vector<std::vector<double>> slowness;  // By window.
    for (int i = 0; i < kRepeats; ++i) {
      ComputeFor(most_s_);
      std::this_thread::sleep_for(std::chrono::duration<double>(rest_s));
      ComputeFor(after_s);
      ValueOrDie(run_->RunIteration());
      ReadTimes();
      AddWindows(&slowness);
    }
    std::printf("%6.2f  %6.2f ", rest_s, after_s);
    for (const std::vector<double>& of_window : slowness) {
      std::printf(" %4.0f", 100 * Summarize(of_window).median);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  void ComputeFor(double seconds) {
    const Clock::time_point begin = Clock::now();
    while (Since(begin) < seconds) ValueOrDie(run_->RunIteration());
  }

  // Of computations, in their order.
  void ReadTimes() {
    const TaskGraph& graph = run_->graph();
    seconds_.clear();
    begins_s_.clear();
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      if (graph.tasks[id].kind != TaskKind::kCompute) continue;
      const TaskTime time = run_->Time(id);
      seconds_.push_back(Seconds(time));
      begins_s_.push_back(static_cast<double>(time.start_ns) * 1e-9);
    }
  }

  void AddWindows(std::vector<std::vector<double>>* slowness) const {
    std::vector<std::pair<double, double>> sums;  // By window: now, steady.
    for (std::size_t i = 0; i < seconds_.size(); ++i) {
      const auto window = static_cast<std::size_t>(std::max(0.0, begins_s_[i]) / kWindow_s);
      if (sums.size() <= window) sums.resize(window + 1);
      sums[window].first += seconds_[i];
      sums[window].second += steady_s_[i];
    }
    if (slowness->size() < sums.size()) slowness->resize(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].second > 0) (*slowness)[i].push_back(sums[i].first / sums[i].second);
    }
  }

  const bool on_gpu_;
  const double most_s_;
  std::unique_ptr<RepeatedRun> run_;
  std::vector<double> seconds_, begins_s_, steady_s_;
};

int Main(int argc, char** argv) {
  const std::string backend = argc > 1 ? argv[1] : "";
  if ((backend != "cuda" && backend != "cpu") || argc < 4 || argc > 5) {
    std::fprintf(stderr, "clock_benchmark cuda|cpu MODEL.textproto MICRO_BATCH [SECONDS]\n");
    return 2;
  }
  const auto micro_batch =
      WithinOrDie<std::int64_t>(ParseInteger(argv[3]), "MICRO_BATCH", 1, 1 << 20);
  const double seconds = argc > 4 ? WithinOrDie<double>(ParseReal(argv[4]), "SECONDS", 0.1, 60) : 2;
  const Model model = ValueOrDie(ParseTextFile<Model>(argv[2]));
  ClockBenchmark(backend == "cuda", model, micro_batch, seconds).Run();
  return 0;
}

}  // namespace
}  // namespace twinstep

int main(int argc, char** argv) { return twinstep::Main(argc, argv); }
