// How fast a model trains on this machine's GPUs, and where the first rank's time goes.
//
//   training_benchmark MODEL MICRO_BATCH GLOBAL_BATCH SEQUENCE STEPS [PLAN [train] [late|eager]]
//
// MODEL: a text file as in model_zoo/, PLAN: one of a plan's fields. Prints a line of totals and a
// table of operators: calls, milliseconds of an iteration, what of the arithmetic or memory rate
// they reach. Times of operators are from a run of their own, whose slow-down by recording is
// printed too; of plans that copy, also what of the link's and the memory's rate is reached.
// With `train` only STEPS steps, each with its loss: for models whose states fill the machine. With
// `late` a thread of the CPU launches copies and host tasks, with `eager` none does
// (CudaOptions::late_lanes).

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_options.h"
#include "exec/runtime/batch.h"
#include "exec/runtime/executor.h"
#include "exec/runtime/quick_weights.h"
#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/arena.h"
#include "sim/lower/lower.h"
#include "sim/plan/plan.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/textproto/quantity.h"
#include "sim/textproto/text_file.h"
#include "tests/exec/cuda/has_gpu.h"
#include "tests/exec/cuda/host_traffic.h"
#include "tests/exec/cuda/value_or_die.h"

namespace twinstep {
namespace {

constexpr double kPeakFlopsPerSecond = 989e12;  // Dense bf16 of an H200.
constexpr double kGib = 1 << 30;

struct Setup {
  Model model;
  ResolvedPlan plan;
  TaskGraph graph;
  ArenaPlan arena;
  int steps = 0;
  bool only_train = false;
  std::optional<bool> late_lanes;
};

const char* LaneWord(const Setup& setup) {
  if (!setup.late_lanes.has_value()) return "";
  return *setup.late_lanes ? " late lanes" : " eager lanes";
}

Setup MakeSetup(int argc, char** argv) {
  Setup setup;
  setup.model = ValueOrDie(ParseTextFile<Model>(argv[1]));
  Plan plan = ValueOrDie(ParseText<Plan>(argc > 6 ? argv[6] : "", "PLAN")).message;
  plan.set_micro_batch(ValueOrDie(ParseInteger(argv[2])));
  plan.set_global_batch(ValueOrDie(ParseInteger(argv[3])));
  plan.set_sequence_length(ValueOrDie(ParseInteger(argv[4])));
  setup.steps =
      static_cast<int>(WithinOrDie<std::int64_t>(ParseInteger(argv[5]), "STEPS", 1, 1 << 20));
  for (int i = 7; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "train") setup.only_train = true;
    if (word == "late" || word == "eager") setup.late_lanes = word == "late";
  }
  const CudaDevice device = ValueOrDie(DescribeCudaDevice(0));
  Cluster cluster;
  cluster.set_name("this machine");
  cluster.set_nodes(1);
  std::int64_t ranks = 1;
  for (const std::int64_t size : {plan.tensor_parallel(), plan.context_parallel(),
                                  plan.pipeline_parallel(), plan.data_parallel()}) {
    ranks *= std::max<std::int64_t>(1, size);
  }
  cluster.mutable_node()->set_gpus(ranks);
  cluster.mutable_gpu()->set_name(device.name);
  cluster.mutable_gpu()->set_memory_bytes(device.memory_bytes);
  cluster.mutable_gpu()->set_attention_backward_fp32_dq(true);
  setup.plan = ValueOrDie(ResolvePlan(setup.model, cluster, plan, cluster.node().gpus()));
  setup.graph = ValueOrDie(Lower(setup.model, cluster, setup.plan, {.fold = false}));
  setup.arena = PlanArena(setup.graph);
  return setup;
}

// Products of the model alone, causal attention counted once, no recomputation: the usual MFU.
double ModelFlopsPerToken(const Model& model, std::int64_t sequence) {
  const auto h = static_cast<double>(model.hidden_size());
  const auto heads = static_cast<double>(model.attention_heads());
  const double kv = model.kv_heads() > 0 ? static_cast<double>(model.kv_heads()) : heads;
  const double ffn = static_cast<double>(model.ffn_hidden_size());
  const double layer =
      2 * h * h + 2 * h * h * kv / heads + (model.family() == LLAMA ? 3 : 2) * h * ffn;
  const auto layers = static_cast<double>(model.layers());
  const double weights = layers * layer + static_cast<double>(model.vocab_size()) * h;
  return 6 * weights + 6 * layers * h * static_cast<double>(sequence);
}

// A training with its backend; iterations on random tokens.
class Run {
 public:
  Run(const Setup& setup, bool record_times) : setup_(setup) {
    backend_ =
        ValueOrDie(MakeCudaBackend({.record_times = record_times, .late_lanes = setup.late_lanes}));
    executor_ = ValueOrDie(
        Executor::Create(setup.graph, setup.arena, setup.plan, backend_.get(), {.verify = false}));
    WriteQuickWeights(setup.graph, backend_.get());
    std::mt19937_64 random(1);
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i <= setup.plan.global_batch * setup.plan.sequence_length; ++i) {
      tokens.push_back(static_cast<std::int32_t>(
          random() % static_cast<std::uint64_t>(setup.model.vocab_size())));
    }
    const std::span<const std::int32_t> all(tokens);
    ValueOrDie(LoadBatch(setup.graph, setup.plan.sequence_length, all.first(all.size() - 1),
                         all.subspan(1), backend_.get()));
    step_.learning_rate = 1e-4;
    const Recipe& recipe = setup.model.recipe();
    step_.clip_norm = recipe.clip_norm();
    step_.hidden_dropout = recipe.hidden_dropout();
    step_.attention_dropout = recipe.attention_dropout();
  }

  // Seconds of an iteration, the mean of `steps`.
  double Time(int steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) {
      ValueOrDie(executor_->RunIteration(step_));
      ++step_.step;
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count() / steps;
  }

  double Loss() const { return ReadLoss(setup_.graph, *backend_); }
  const Backend& backend() const { return *backend_; }
  Execution LastExecution() const { return executor_->LastExecution(); }

 private:
  const Setup& setup_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  StepValues step_;
};

std::string Describe(const OpShape& shape) {
  std::string text = Name(shape.op);
  for (const std::int64_t dim : shape.dims) {
    if (dim != 0) text += " " + std::to_string(dim);
  }
  return text;
}

struct Row {
  int calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

void PrintOperators(const Setup& setup, const Execution& execution) {
  std::map<std::string, Row> rows;
  double busy = 0;
  std::int64_t lane_end = 0, gaps = 0;
  for (TaskId id = 0; id < setup.graph.rank_begin[1]; ++id) {
    const Task& task = setup.graph.tasks[id];
    const OpShape& shape = setup.graph.shapes[task.shape];
    const double seconds =
        static_cast<double>(execution.end_ps[id] - execution.start_ps[id]) * 1e-12;
    Row& row = rows[Describe(shape)];
    ++row.calls;
    row.seconds += seconds;
    row.flops += Flops(shape);
    row.bytes += MemoryBytes(shape);
    if (task.lane != Lane::kCompute) continue;
    busy += seconds;
    gaps += std::max<std::int64_t>(0, execution.start_ps[id] - lane_end);
    lane_end = std::max(lane_end, execution.end_ps[id]);
  }
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  std::printf("%-56s %6s %9s %8s %7s\n", "operator", "calls", "ms", "TFLOP/s", "GB/s");
  for (const auto& [name, row] : sorted) {
    std::printf("%-56s %6d %9.3f %8.1f %7.0f\n", name.c_str(), row.calls, row.seconds * 1e3,
                row.flops / row.seconds * 1e-12, row.bytes / row.seconds * 1e-9);
  }
  const double iteration = static_cast<double>(execution.iteration_ps) * 1e-12;
  std::printf("iteration %.3f ms, compute lane busy %.3f ms, gaps between its tasks %.3f ms\n",
              iteration * 1e3, busy * 1e3, static_cast<double>(gaps) * 1e-9);
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void TrainOnly(const Setup& setup) {
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t parameters = 0;
  for (const TensorInfo& tensor : setup.graph.tensors) {
    if (tensor.state == StateKind::kMoment1) parameters += tensor.rows * tensor.columns;
  }
  std::array<double, kPoolCount> arenas{};
  for (const auto& bytes : setup.arena.arena_bytes) {
    for (std::size_t pool = 0; pool < arenas.size(); ++pool) {
      arenas[pool] += static_cast<double>(bytes[pool]) / kGib;
    }
  }
  parameters /= setup.plan.d * setup.plan.c;  // Replicas.
  std::printf("%.3f billion parameters; arenas %.1f GiB GPU, %.1f pinned, %.1f host\n",
              static_cast<double>(parameters) * 1e-9, arenas[static_cast<std::size_t>(Pool::kGpu)],
              arenas[static_cast<std::size_t>(Pool::kPinnedHost)],
              arenas[static_cast<std::size_t>(Pool::kHost)]);
  std::fflush(stdout);
  Run run(setup, /*record_times=*/false);
  std::printf("memory made and weights drawn in %.1f s\n", SecondsSince(begin));
  double first = 0, last = 0, seconds = 0;
  for (int step = 1; step <= setup.steps; ++step) {
    seconds = run.Time(1);
    last = run.Loss();
    if (step == 1) first = last;
    std::printf("step %d: loss %.4f, %.3f s\n", step, last, seconds);
    std::fflush(stdout);
  }
  const BackendMemory memory = run.backend().Memory().value_or(BackendMemory{});
  std::printf(
      "TOTAL %s%s: %.3f billion parameters trained %d steps, loss %.4f to %.4f, last step %.3f s, "
      "%.0f tokens/s, driver %.1f GiB, host arenas %.1f GiB, %.1f s in all\n",
      setup.model.name().c_str(), LaneWord(setup), static_cast<double>(parameters) * 1e-9,
      setup.steps, first, last, seconds,
      static_cast<double>(setup.plan.global_batch * setup.plan.sequence_length) / seconds,
      static_cast<double>(memory.used_bytes) / kGib,
      arenas[static_cast<std::size_t>(Pool::kPinnedHost)] +
          arenas[static_cast<std::size_t>(Pool::kHost)],
      SecondsSince(begin));
}

int Main(int argc, char** argv) {
  const auto is_flag = [](const char* word) {
    return std::string(word) == "train" || std::string(word) == "late" ||
           std::string(word) == "eager";
  };
  if (argc < 6 || (argc > 7 && !std::all_of(argv + 7, argv + argc, is_flag))) {
    std::fprintf(stderr,
                 "training_benchmark MODEL MICRO_BATCH GLOBAL_BATCH SEQUENCE STEPS "
                 "[PLAN [train] [late|eager]]\n");
    return 2;
  }
  const Setup setup = MakeSetup(argc, argv);
  if (setup.only_train) {
    TrainOnly(setup);
    return 0;
  }
  constexpr int kWarmUp = 3;
  double seconds = 0;
  {
    Run run(setup, /*record_times=*/false);
    run.Time(kWarmUp);
    seconds = run.Time(setup.steps);
    const double tokens = static_cast<double>(setup.plan.global_batch * setup.plan.sequence_length);
    const double gpus = std::min<double>(GpuCount(), static_cast<double>(setup.graph.ranks.size()));
    const double flops =
        tokens * ModelFlopsPerToken(setup.model, setup.plan.sequence_length) / gpus;
    const BackendMemory memory = run.backend().Memory().value_or(BackendMemory{});
    std::printf(
        "TOTAL %s mb %s batch %s seq %s plan '%s'%s, %.0f GPUs: %.4f s, %.0f tokens/s, MFU %.1f "
        "%%, "
        "driver %.1f GiB, arena %.1f GiB, scratch %.2f GiB, loss %.4f\n",
        argv[1], argv[2], argv[3], argv[4], argc > 6 ? argv[6] : "", LaneWord(setup), gpus, seconds,
        tokens / seconds, 100 * flops / seconds / kPeakFlopsPerSecond,
        static_cast<double>(memory.used_bytes) / kGib,
        static_cast<double>(memory.arena_bytes) / kGib,
        static_cast<double>(memory.scratch_bytes) / kGib, run.Loss());
  }
  Execution execution;
  {
    Run run(setup, /*record_times=*/true);
    run.Time(kWarmUp);
    const double recorded = run.Time(setup.steps);
    std::printf("recording times: %.4f s, %+.2f %%\n", recorded, 100 * (recorded / seconds - 1));
    execution = run.LastExecution();
  }
  PrintOperators(setup, execution);
  PrintHostTraffic(setup.graph, execution);
  return 0;
}

}  // namespace
}  // namespace twinstep

int main(int argc, char** argv) { return twinstep::Main(argc, argv); }
