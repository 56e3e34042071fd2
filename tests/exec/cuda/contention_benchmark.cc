// What the GPUs of one host take from each other: copies of 1, 2, 4 ... and N of them at once, CPU
// Adam beside them, collectives beside copies.
//
//   contention_benchmark cuda|cpu N [SECONDS [FOOTPRINT_MIB]]
//
// Prints a line for each mixture and number of GPUs: rates of a GPU's copies, of all GPUs' CPU Adam
// together, and of a collective (bytes of the whole tensor over its time), as means of what ran
// while all of the mixture did, SECONDS (1) a mixture. Copies go through FOOTPRINT_MIB (512; on the
// CPU 64) of memory on each side, a lane and GPU: 64 = the same again and again, as caches hold it.

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_backend.h"
#include "exec/cuda/cuda_options.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/repeated_run.h"
#include "exec/profile/task_seconds.h"
#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/arena.h"
#include "sim/lower/lower.h"
#include "sim/plan/plan.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/textproto/quantity.h"
#include "tests/exec/cuda/value_or_die.h"

namespace twinstep {
namespace {

constexpr std::int64_t kBytes = std::int64_t{64} << 20;
constexpr std::int64_t kAlignment = 256;
constexpr int kFirstRepeats = 4;
constexpr double kIteration_s = 0.2;  // What each part of a mixture runs for.
constexpr double kWarmUp_s = 0.5;
// All is in one memory there: a trial of this program.
constexpr std::int64_t kCpuFootprintMib = 64;

enum Part { kUp, kDown, kAdam, kGather, kReduce, kParts };
struct Mixture {
  const char* name;
  std::vector<Part> parts;
};
const std::vector<Mixture> kMixtures{
    {"copies up", {kUp}},
    {"copies down", {kDown}},
    {"copies both ways", {kUp, kDown}},
    {"CPU Adam", {kAdam}},
    {"CPU Adam, copies both ways", {kUp, kDown, kAdam}},
    {"all-gather", {kGather}},
    {"all-gather, copies both ways", {kUp, kDown, kGather}},
    {"all-reduce", {kReduce}},
    {"all-reduce, copies both ways", {kUp, kDown, kReduce}},
    {"all-gather, CPU Adam, copies both ways", {kUp, kDown, kAdam, kGather}},
};

Part PartOf(const TaskGraph& graph, TaskId id) {
  switch (graph.shapes[graph.tasks[id].shape].op) {
    case OpCode::kCopyH2D:
      return kUp;
    case OpCode::kCopyD2H:
      return kDown;
    case OpCode::kAllGather:
      return kGather;
    case OpCode::kAllReduce:
      return kReduce;
    default:
      return kAdam;
  }
}

class Contention {
 public:
  Contention(bool on_gpu, double seconds, std::int64_t footprint_bytes)
      : on_gpu_(on_gpu), seconds_(seconds), footprint_bytes_(footprint_bytes) {
    google::protobuf::TextFormat::ParseFromString(
        std::string("name: 'one layer' family: LLAMA layers: 1 attention_heads: 4 vocab_size: 256 "
                    "max_sequence_length: 64 ") +
            (on_gpu ? "hidden_size: 2048 ffn_hidden_size: 16384"
                    : "hidden_size: 256 ffn_hidden_size: 1024"),
        &model_);
  }

  void Run(std::uint32_t gpus) {
    Plan plan;
    plan.set_data_parallel(gpus);
    plan.set_global_batch(gpus);
    Cluster cluster;
    cluster.set_nodes(1);
    cluster.mutable_node()->set_gpus(gpus);
    plan_ = ValueOrDie(ResolvePlan(model_, cluster, plan, gpus));
    layer_ = ValueOrDie(Lower(model_, cluster, plan_, {.fold = false}));
    std::map<Part, double> alone_s;
    for (const Mixture& mixture : kMixtures) {
      std::map<Part, int> times;
      for (const Part part : mixture.parts) {
        if (gpus == 1 && (part == kGather || part == kReduce)) break;
        const auto known = alone_s.find(part);
        if (known == alone_s.end()) {
          alone_s[part] = Measure(gpus, {{part, kFirstRepeats}}).at(part);
        }
        times[part] = 1 + static_cast<int>(std::lround(kIteration_s / alone_s[part]));
      }
      if (times.size() < mixture.parts.size()) continue;
      Print(mixture, gpus, Measure(gpus, times));
    }
  }

 private:
  // Mean seconds of a task of each part.
  std::map<Part, double> Measure(std::uint32_t gpus, const std::map<Part, int>& times) {
    RepeatedRun run(Lowered(gpus, times), {.make_backend = [this] { return MakeBackend(); }});
    ValueOrDie(run.Start(/*fill_buffers=*/true));
    ValueOrDie(run.WarmUp(kWarmUp_s));
    std::map<Part, std::vector<double>> samples;
    double measured_s = 0;
    do {
      ValueOrDie(run.RunIteration());
      Collect(run, &samples);
      measured_s += run.IterationSeconds();
    } while (measured_s < seconds_);
    std::map<Part, double> means;
    for (const auto& [part, seconds] : samples) {
      means[part] = std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                    static_cast<double>(seconds.size());
    }
    return means;
  }

  LoweredPlan Lowered(std::uint32_t gpus, const std::map<Part, int>& times) const {
    ProbeGraph probes(gpus);
    for (const auto& [part, count] : times) {
      switch (part) {
        case kUp:
        case kDown:
          probes.AddCopies(part == kUp, kBytes, count, footprint_bytes_);
          break;
        case kAdam:
          for (std::uint32_t rank = 0; rank < gpus; ++rank) {
            probes.AddTask(layer_, AdamTask(), {.rank = rank, .times = count, .on_host = true});
          }
          break;
        default:
          OpShape shape{.op = part == kGather ? OpCode::kAllGather : OpCode::kAllReduce,
                        .dtype = Dtype::kBf16};
          shape.dims[0] = GroupBytes(gpus);
          probes.AddGroupOperation(shape, count);
      }
    }
    LoweredPlan lowered{
        .model = model_, .plan = plan_, .graph = std::move(probes).Finish(), .arena = {}};
    lowered.arena = PlanArena(lowered.graph);
    return lowered;
  }

  // Of a collective's whole tensor: every GPU has an equal, aligned part.
  static std::int64_t GroupBytes(std::uint32_t gpus) {
    const std::int64_t parts = kAlignment * gpus;
    return kBytes / parts * parts;
  }

  Result<std::unique_ptr<Backend>> MakeBackend() const {
    if (on_gpu_) return MakeCudaBackend({.record_times = true, .gpu_a_rank = true});
    // A thread each: lanes run beside each other, as those of a GPU do.
    const int threads = kParts * static_cast<int>(plan_.d);
    return std::unique_ptr<Backend>(
        std::make_unique<CpuBackend>(CpuBackendOptions{.threads = threads}));
  }

  // The largest update of the first rank.
  TaskId AdamTask() const {
    TaskId largest = kNone;
    for (TaskId id = 0; id < layer_.rank_begin[1]; ++id) {
      const auto elements = [&](TaskId task) {
        return layer_.shapes[layer_.tasks[task].shape].dims[0];
      };
      if (layer_.shapes[layer_.tasks[id].shape].op != OpCode::kAdam) continue;
      if (largest == kNone || elements(id) > elements(largest)) largest = id;
    }
    return largest;
  }

  // Of tasks that ran while every rank was at every part.
  static void Collect(const RepeatedRun& run, std::map<Part, std::vector<double>>* samples) {
    const TaskGraph& graph = run.graph();
    std::map<std::pair<RankId, Part>, TaskTime> spans;
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      const TaskTime time = run.Time(id);
      const auto [span, is_new] =
          spans.try_emplace({graph.tasks[id].rank, PartOf(graph, id)}, time);
      if (!is_new) span->second.end_ns = time.end_ns;
    }
    TaskTime together = spans.begin()->second;
    for (const auto& [key, span] : spans) {
      together.start_ns = std::max(together.start_ns, span.start_ns);
      together.end_ns = std::min(together.end_ns, span.end_ns);
    }
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      const TaskTime time = run.Time(id);
      const bool is_alone = spans.size() == graph.ranks.size();  // Of one part all tasks count.
      if (!is_alone && (time.start_ns < together.start_ns || time.end_ns > together.end_ns)) {
        continue;
      }
      (*samples)[PartOf(graph, id)].push_back(Seconds(time));
    }
  }

  void Print(const Mixture& mixture, std::uint32_t gpus,
             const std::map<Part, double>& means) const {
    static const std::map<Part, const char*> kNames{{kUp, "up"},
                                                    {kDown, "down"},
                                                    {kAdam, "Adam"},
                                                    {kGather, "all-gather"},
                                                    {kReduce, "all-reduce"}};
    std::printf("%-40s %u GPUs ", mixture.name, gpus);
    for (const Part part : mixture.parts) {
      const auto at = means.find(part);
      if (at == means.end()) {
        std::printf("  %s never beside the others", kNames.at(part));
      } else if (part == kAdam) {
        const double elements =
            static_cast<double>(layer_.shapes[layer_.tasks[AdamTask()].shape].dims[0]);
        std::printf("  Adam %.3f G parameters/s", gpus * elements / at->second * 1e-9);
      } else {
        const std::int64_t bytes = part == kUp || part == kDown ? kBytes : GroupBytes(gpus);
        std::printf("  %s %.2f GB/s", kNames.at(part),
                    static_cast<double>(bytes) / at->second * 1e-9);
      }
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  bool on_gpu_;
  double seconds_;
  std::int64_t footprint_bytes_;
  Model model_;
  ResolvedPlan plan_;
  TaskGraph layer_;
};

int Main(int argc, char** argv) {
  const std::string backend = argc > 1 ? argv[1] : "";
  if ((backend != "cuda" && backend != "cpu") || argc < 3 || argc > 5) {
    std::fprintf(stderr, "contention_benchmark cuda|cpu N [SECONDS [FOOTPRINT_MIB]]\n");
    return 2;
  }
  const auto gpus = WithinOrDie<std::int64_t>(ParseInteger(argv[2]), "N", 1, 1024);
  const double seconds =
      argc > 3 ? WithinOrDie<double>(ParseReal(argv[3]), "SECONDS", 1e-3, 1e4) : 1;
  const std::int64_t usual_mib =
      backend == "cpu" ? kCpuFootprintMib : ProbeGraph::kFootprintBytes >> 20;
  const std::int64_t footprint_mib =
      argc > 4 ? WithinOrDie<std::int64_t>(ParseInteger(argv[4]), "FOOTPRINT_MIB", 1, 1 << 20)
               : usual_mib;
  Contention contention(backend == "cuda", seconds, footprint_mib << 20);
  for (std::int64_t n = 1; n < gpus; n *= 2) contention.Run(static_cast<std::uint32_t>(n));
  contention.Run(static_cast<std::uint32_t>(gpus));
  return 0;
}

}  // namespace
}  // namespace twinstep

int main(int argc, char** argv) { return twinstep::Main(argc, argv); }
