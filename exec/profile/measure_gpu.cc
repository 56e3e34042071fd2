#include "exec/profile/measure_gpu.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "exec/profile/layer_plan.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/statistics.h"
#include "exec/runtime/quick_weights.h"
#include "sim/graph/arena.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerNanosecond = 1e-9;
constexpr int kFewestIterations = 3;
constexpr int kProbeRepeats = 5;
// Copies run for so many times what they run beside takes.
constexpr double kCopyMargin = 1.05, kHostCopyMargin = 3;
constexpr std::int64_t kTinyBytes = 1024;
// Host Adam where the plan has none: far beyond caches.
constexpr std::int64_t kMostHostElements = std::int64_t{1} << 28;

// Shares of the time.
constexpr double kAloneShare = 0.35, kBesideShare = 0.1, kProbeShare = 0.1, kCopyShare = 0.1,
                 kHostShare = 0.05;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
double Seconds(const TaskTime& time) {
  return static_cast<double>(time.end_ns - time.start_ns) * kSecondsPerNanosecond;
}

Primitive CopyPrimitive(bool h2d, std::int64_t bytes) {
  OpShape shape{.op = h2d ? OpCode::kCopyH2D : OpCode::kCopyD2H, .dtype = Dtype::kUint8};
  shape.dims[0] = bytes;
  return {.shape = WorkShape(shape)};
}

void AppendTo(std::vector<double>* times, const std::vector<double>& more) {
  times->insert(times->end(), more.begin(), more.end());
}

// Means of an iteration's tasks, by primitive: what is repeated are iterations.
using Means = std::map<Primitive, std::vector<double>>;
double MedianOf(const Means& means, const Primitive& primitive) {
  const auto at = means.find(primitive);
  return at == means.end() ? 0 : Summarize(at->second).median;
}

// A graph that runs again and again.
class Repeated {
 public:
  Repeated(LoweredPlan lowered, const GpuMeasureOptions& options)
      : lowered_(std::move(lowered)), options_(options) {
    lowered_.data = options.data;
  }

  Status Start(bool fill_buffers) {
    Result<std::unique_ptr<Backend>> backend = options_.make_backend();
    if (!backend.ok()) return backend.error();
    Backend* const device = backend.value().get();
    Result<std::unique_ptr<PlanRun>> run = PlanRun::Create(lowered_, std::move(backend).value());
    if (!run.ok()) return run.error();
    run_ = std::move(run).value();
    if (fill_buffers) FillBuffers(lowered_.graph, device);
    primitives_ = PrimitivesOf(graph());
    for (TaskId id = 0; id < graph().TaskCount(); ++id) {
      const auto primitive = PrimitiveOf(graph(), id);
      primitive_.push_back(primitive ? IndexOf(*primitive) : kNone);
    }
    return Unit{};
  }

  // Without measuring; at least one iteration.
  Status WarmUp(double seconds) {
    const Clock::time_point begin = Clock::now();
    int iterations = 0;
    do {
      if (const Status done = run_->RunIteration(); !done.ok()) return done;
      ++iterations;
    } while (Since(begin) < seconds);
    pause_ = static_cast<int>(std::floor(options_.sizes.pause_s * iterations / Since(begin)));
    return Unit{};
  }

  // `counts` says whether a task counts, after each iteration.
  template <typename Counts>
  Status Measure(double seconds, Means* means, const Counts& counts) {
    const Clock::time_point begin = Clock::now();
    std::vector<std::vector<double>> all(primitives_.size()), of_iteration(primitives_.size());
    for (int i = 0; i < kFewestIterations || Since(begin) < seconds; ++i) {
      for (int k = 0; k <= pause_; ++k) {
        if (const Status done = run_->RunIteration(); !done.ok()) return done;
      }
      for (TaskId id = 0; id < graph().TaskCount(); ++id) {
        if (primitive_[id] == kNone || !counts(id)) continue;
        of_iteration[primitive_[id]].push_back(Seconds(run_->Time(id)));
      }
      for (std::size_t k = 0; k < all.size(); ++k) {
        if (of_iteration[k].empty()) continue;
        all[k].push_back(Summarize(of_iteration[k]).mean);
        of_iteration[k].clear();
      }
    }
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (!all[k].empty()) AppendTo(&(*means)[primitives_[k]], all[k]);
    }
    return Unit{};
  }
  Status Measure(double seconds, Means* means) {
    return Measure(seconds, means, [](TaskId) { return true; });
  }

  TaskTime Time(TaskId id) const { return run_->Time(id); }
  const TaskGraph& graph() const { return lowered_.graph; }

  double IterationSeconds() const {
    std::int64_t end_ns = 0;
    for (TaskId id = 0; id < graph().TaskCount(); ++id) {
      end_ns = std::max(end_ns, run_->Time(id).end_ns);
    }
    return static_cast<double>(end_ns) * kSecondsPerNanosecond;
  }
  // On the device besides the arena; 0 where the backend does not say.
  std::int64_t OverheadBytes() const {
    const auto memory = run_->backend().Memory();
    return memory ? memory->used_bytes - memory->arena_bytes : 0;
  }
  std::vector<std::int64_t> ScratchBytes() const {
    std::vector<std::int64_t> bytes;
    for (TaskId id = 0; id < graph().TaskCount(); ++id) {
      bytes.push_back(run_->backend().ScratchBytes(id));
    }
    return bytes;
  }

 private:
  std::uint32_t IndexOf(const Primitive& primitive) const {
    const auto at = std::lower_bound(primitives_.begin(), primitives_.end(), primitive);
    return static_cast<std::uint32_t>(at - primitives_.begin());
  }

  LoweredPlan lowered_;  // The run refers to it.
  const GpuMeasureOptions& options_;
  std::unique_ptr<PlanRun> run_;
  std::vector<Primitive> primitives_;
  std::vector<std::uint32_t> primitive_;  // By task.
  int pause_ = 0;
};

class GpuMeasurement {
 public:
  GpuMeasurement(const Model& model, const Cluster& cluster, const ResolvedPlan& plan,
                 const GpuMeasureOptions& options, GpuSamples* samples)
      : model_(model),
        cluster_(cluster),
        plan_(plan),
        options_(options),
        samples_(*samples),
        is_first_(samples->primitives.times.empty()) {}

  Status Run() {
    if (plan_.gpus > 1) {
      return Error{.code = ExitCode::kNo,
                   .message =
                       "a plan of several ranks shares this machine's GPU: what its "
                       "operations take there is not what they take on GPUs of their own"};
    }
    Result<TaskGraph> whole = Lower(model_, cluster_, plan_, {.fold = false});
    if (!whole.ok()) return whole.error();
    whole_ = std::move(whole).value();
    for (const auto phase :
         {&GpuMeasurement::MeasureLayers, &GpuMeasurement::MeasureOthers,
          &GpuMeasurement::MeasureCopies, &GpuMeasurement::MeasureLayersBesideCopies,
          &GpuMeasurement::MeasureHostAdam, &GpuMeasurement::MeasureRates}) {
      if (const Status done = (this->*phase)(); !done.ok()) return done;
    }
    return Unit{};
  }

 private:
  double WarmUpSeconds() const { return options_.warm_up_s / 4; }
  void BeginPhase(const char* what) const {
    if (options_.begin_phase) options_.begin_phase(what);
  }
  LoweredPlan LoweredProbe(TaskGraph graph) const {
    LoweredPlan probe{.model = model_, .plan = plan_, .graph = std::move(graph), .arena = {}};
    probe.arena = PlanArena(probe.graph);
    return probe;
  }
  int CopiesIn(double seconds, double bytes_per_s) const {
    return 1 + static_cast<int>(seconds * bytes_per_s /
                                static_cast<double>(options_.sizes.beside_bytes));
  }
  bool IsMeasured(const Primitive& primitive) const {
    const auto at = samples_.primitives.times.find(primitive);
    return at != samples_.primitives.times.end() && !at->second.alone_s.empty();
  }
  PrimitiveTimes& TimesOf(const Primitive& primitive) {
    return samples_.primitives.times[primitive];
  }

  Status MeasureLayers() {
    BeginPhase("layers alone");
    Result<LoweredPlan> layers = LowerFewLayers(model_, cluster_, plan_);
    if (!layers.ok()) return layers.error();
    layers_ = std::move(layers).value();
    const std::vector<Primitive> primitives = PrimitivesOf(layers_.graph);
    layers_are_new_ = !std::ranges::all_of(
        primitives, [this](const Primitive& primitive) { return IsMeasured(primitive); });
    if (!layers_are_new_) return Unit{};
    Repeated run(layers_, options_);
    if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
    if (const Status warm = run.WarmUp(options_.warm_up_s); !warm.ok()) return warm;
    Means means;
    const Status done = run.Measure(kAloneShare * options_.seconds, &means);
    if (!done.ok()) return done;
    iteration_s_ = run.IterationSeconds();
    for (const auto& [primitive, times] : means) AppendTo(&TimesOf(primitive).alone_s, times);
    samples_.overhead_bytes = std::max(samples_.overhead_bytes, run.OverheadBytes());
    samples_.layers = layers_.graph;
    samples_.scratch_bytes = run.ScratchBytes();
    return Unit{};
  }

  // Operations of the plan that its layers alone do not have, and the optimizer's on the host.
  Status MeasureOthers() {
    BeginPhase("other operators");
    ProbeGraph probes;
    std::set<Primitive> added;
    for (TaskId id = 0; id < whole_.TaskCount(); ++id) {
      const auto primitive = PrimitiveOf(whole_, id);
      if (!primitive || primitive->group_size > 0 || IsCopy(primitive->shape.op) ||
          IsHostAdam(*primitive) || IsMeasured(*primitive)) {
        continue;
      }
      if (added.insert(*primitive).second) {
        probes.AddTask(whole_, id, {.times = kProbeRepeats, .on_host = primitive->on_host});
      }
    }
    if (added.empty()) return Unit{};
    Means means;
    const Status done = MeasureProbes(std::move(probes), kProbeShare, &means);
    if (!done.ok()) return done;
    for (const auto& [primitive, times] : means) AppendTo(&TimesOf(primitive).alone_s, times);
    return Unit{};
  }

  Status MeasureProbes(ProbeGraph probes, double share, Means* means) {
    Repeated run(LoweredProbe(std::move(probes).Finish()), options_);
    if (const Status started = run.Start(/*fill_buffers=*/true); !started.ok()) return started;
    if (const Status warm = run.WarmUp(WarmUpSeconds()); !warm.ok()) return warm;
    return run.Measure(share * options_.seconds, means);
  }

  std::vector<std::int64_t> CopySizes() const {
    std::set<std::int64_t> sizes;
    if (is_first_) sizes.insert(options_.sizes.copy_bytes.begin(), options_.sizes.copy_bytes.end());
    for (TaskId id = 0; id < whole_.TaskCount(); ++id) {
      const OpShape& shape = whole_.shapes[whole_.tasks[id].shape];
      if (!IsCopy(shape.op)) continue;
      const bool h2d = shape.op == OpCode::kCopyH2D;
      if (!IsMeasured(CopyPrimitive(h2d, shape.dims[0]))) sizes.insert(shape.dims[0]);
    }
    return {sizes.begin(), sizes.end()};
  }

  Status MeasureCopies() {
    BeginPhase("copies");
    const std::vector<std::int64_t> sizes = CopySizes();
    if (sizes.empty()) return Unit{};
    Means alone;
    for (const bool h2d : {true, false}) {
      ProbeGraph probes;
      for (const std::int64_t bytes : sizes) probes.AddCopies(h2d, bytes, kProbeRepeats);
      const Status done = MeasureProbes(std::move(probes), kCopyShare / 3, &alone);
      if (!done.ok()) return done;
    }
    for (const auto& [primitive, times] : alone) AppendTo(&TimesOf(primitive).alone_s, times);
    if (!is_first_) return Unit{};
    // The engines take one rate of both directions together.
    ProbeGraph both;
    for (const bool h2d : {true, false}) {
      both.AddCopies(h2d, options_.sizes.beside_bytes, 4 * kProbeRepeats);
    }
    Means both_ways;
    const Status done = MeasureProbes(std::move(both), kCopyShare / 3, &both_ways);
    if (!done.ok()) return done;
    double both_s = 0;
    for (const auto& [primitive, times] : both_ways) {
      AppendTo(&TimesOf(primitive).both_ways_s, times);
      both_s += Summarize(times).median / 2;
    }
    const auto rate = [&](bool h2d) {
      const auto largest = static_cast<double>(options_.sizes.copy_bytes.back());
      return largest / MedianOf(alone, CopyPrimitive(h2d, options_.sizes.copy_bytes.back()));
    };
    samples_.h2d_bytes_per_s = rate(true);
    samples_.d2h_bytes_per_s = rate(false);
    samples_.duplex_bytes_per_s = 2 * static_cast<double>(options_.sizes.beside_bytes) / both_s;
    samples_.copy_latency_s =
        MedianOf(alone, CopyPrimitive(true, options_.sizes.copy_bytes.front()));
    return Unit{};
  }

  Status MeasureLayersBesideCopies() {
    BeginPhase("layers beside copies");
    if (!layers_are_new_) return Unit{};
    // As long as the iteration, and hardly longer: the device must not cool down meanwhile.
    const int down = CopiesIn(kCopyMargin * iteration_s_, samples_.d2h_bytes_per_s);
    const int both = CopiesIn(kCopyMargin * iteration_s_, samples_.duplex_bytes_per_s / 2);
    using Member = std::vector<double> PrimitiveTimes::*;
    const std::array<std::pair<BesideCopies, Member>, 2> runs = {
        {{{.bytes = options_.sizes.beside_bytes, .d2h = down}, &PrimitiveTimes::beside_d2h_s},
         {{.bytes = options_.sizes.beside_bytes, .h2d = both, .d2h = both},
          &PrimitiveTimes::beside_copies_s}}};
    std::vector<double> copies_slower;
    for (const auto& [copies, member] : runs) {
      LoweredPlan beside = layers_;
      beside.graph = WithCopies(layers_.graph, copies);
      beside.arena = PlanArena(beside.graph);
      Repeated run(std::move(beside), options_);
      if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
      if (const Status warm = run.WarmUp(WarmUpSeconds()); !warm.ok()) return warm;
      Means means;
      const auto first = static_cast<TaskId>(copies.h2d + copies.d2h);
      const Status done = run.Measure(kBesideShare * options_.seconds, &means, [&](TaskId id) {
        return id < first ? CopyIsBeside(run, id, first) : TaskIsBeside(run, id, copies);
      });
      if (!done.ok()) return done;
      samples_.overhead_bytes = std::max(samples_.overhead_bytes, run.OverheadBytes());
      for (const auto& [primitive, times] : means) {
        if (!IsCopy(primitive.shape.op)) {
          AppendTo(&(TimesOf(primitive).*member), times);
        } else if (copies.h2d == 0 || copies.d2h == 0) {
          AppendTo(&TimesOf(primitive).beside_compute_s, times);
          const double alone_s = Summarize(TimesOf(primitive).alone_s).median;
          if (alone_s > 0) copies_slower.push_back(Summarize(times).median / alone_s);
        }
      }
    }
    if (!copies_slower.empty()) {
      double sum = 0;
      for (const double x : copies_slower) sum += x;
      samples_.copy_beside_compute = std::max(1.0, sum / static_cast<double>(copies_slower.size()));
    }
    return Unit{};
  }

  // All of the copy while operators ran.
  static bool CopyIsBeside(const Repeated& run, TaskId id, TaskId first_operator) {
    const TaskTime begin = run.Time(first_operator);
    const TaskTime end = run.Time(run.graph().TaskCount() - 1);
    return run.Time(id).start_ns >= begin.start_ns && run.Time(id).end_ns <= end.end_ns;
  }
  // All of the task while every direction's copies ran.
  static bool TaskIsBeside(const Repeated& run, TaskId id, const BesideCopies& copies) {
    const TaskTime time = run.Time(id);
    const auto covers = [&](int begin, int count) {
      if (count == 0) return true;
      return time.start_ns >= run.Time(static_cast<TaskId>(begin)).start_ns &&
             time.end_ns <= run.Time(static_cast<TaskId>(begin + count - 1)).end_ns;
    };
    return covers(0, copies.h2d) && covers(copies.h2d, copies.d2h);
  }

  static bool IsHostAdam(const Primitive& primitive) {
    return primitive.on_host && primitive.shape.op == OpCode::kAdam;
  }

  // The largest update of the plan that is not too large.
  TaskId AdamTask() const {
    TaskId largest = kNone;
    std::int64_t elements = 0;
    for (TaskId id = 0; id < whole_.TaskCount(); ++id) {
      const OpShape& shape = whole_.shapes[whole_.tasks[id].shape];
      if (shape.op != OpCode::kAdam || shape.dims[0] > kMostHostElements) continue;
      if (shape.dims[0] <= elements) continue;
      largest = id;
      elements = shape.dims[0];
    }
    return largest;
  }

  Status MeasureHostAdam() {
    BeginPhase("Adam on the host");
    if (samples_.host_adam_params_per_s[0] > 0) return Unit{};
    const TaskId adam = AdamTask();
    if (adam == kNone) return Unit{};
    const auto elements = static_cast<double>(whole_.shapes[whole_.tasks[adam].shape].dims[0]);
    for (std::size_t i = 0; i < samples_.host_adam_params_per_s.size(); ++i) {
      const bool h2d = i % 2 == 1, d2h = i / 2 == 1;
      ProbeGraph probes;
      probes.AddTask(whole_, adam, {.times = kProbeRepeats, .on_host = true});
      // Longer than the updates take, by what they took alone.
      const int count = i == 0 ? 0
                               : CopiesIn(kHostCopyMargin * kProbeRepeats * elements /
                                              samples_.host_adam_params_per_s[0],
                                          samples_.h2d_bytes_per_s);
      const BesideCopies copies{
          .bytes = options_.sizes.beside_bytes, .h2d = h2d ? count : 0, .d2h = d2h ? count : 0};
      Repeated run(LoweredProbe(WithCopies(std::move(probes).Finish(), copies)), options_);
      if (const Status started = run.Start(/*fill_buffers=*/true); !started.ok()) return started;
      if (const Status warm = run.WarmUp(0); !warm.ok()) return warm;
      Means means;
      const auto first = static_cast<TaskId>(copies.h2d + copies.d2h);
      const Status done = run.Measure(kHostShare * options_.seconds, &means, [&](TaskId id) {
        return id < first ? CopyIsBeside(run, id, first) : TaskIsBeside(run, id, copies);
      });
      if (!done.ok()) return done;
      for (const auto& [primitive, times] : means) {
        const double seconds = Summarize(times).median;
        if (!IsCopy(primitive.shape.op)) {
          double& result = samples_.host_adam_params_per_s[i];
          result = std::max(result, elements / seconds);
        } else if (!h2d || !d2h) {
          double& slower = h2d ? samples_.h2d_beside_host : samples_.d2h_beside_host;
          const double alone_s = Summarize(TimesOf(primitive).alone_s).median;
          if (alone_s > 0) slower = std::max(1.0, seconds / alone_s);
        }
      }
    }
    return Unit{};
  }

  Status MeasureRates() {
    BeginPhase("rates");
    if (!is_first_) return Unit{};
    ProbeGraph probes;
    OpShape product{.op = OpCode::kGemmForward, .dtype = Dtype::kBf16};
    product.dims = {options_.sizes.product, options_.sizes.product, options_.sizes.product};
    const std::int64_t matrix =
        options_.sizes.product * options_.sizes.product * DtypeBytes(Dtype::kBf16);
    probes.AddOperator(product, std::array{matrix, matrix}, std::array{matrix}, kProbeRepeats);
    const auto copy = [](std::int64_t bytes) {
      OpShape shape{.op = OpCode::kCopyOnDevice, .dtype = Dtype::kBf16};
      shape.dims[0] = bytes;
      return shape;
    };
    const std::int64_t device_bytes = options_.sizes.device_copy_bytes;
    probes.AddOperator(copy(device_bytes), std::array{device_bytes}, std::array{device_bytes},
                       kProbeRepeats);
    Means means;
    if (const Status done = MeasureProbes(std::move(probes), kProbeShare, &means); !done.ok()) {
      return done;
    }
    const double product_s = MedianOf(means, {.shape = WorkShape(product)});
    const double copy_s =
        MedianOf(means, {.shape = WorkShape(copy(options_.sizes.device_copy_bytes))});
    samples_.bf16_flops_per_s = Flops(product) / product_s;
    samples_.memory_bytes_per_s =
        2 * static_cast<double>(options_.sizes.device_copy_bytes) / copy_s;

    // So small that only their launching takes time.
    ProbeGraph tiny;
    tiny.AddOperator(copy(kTinyBytes), std::array{kTinyBytes}, std::array{kTinyBytes},
                     options_.sizes.launches);
    Means tiny_means;
    const Status done = MeasureProbes(std::move(tiny), kProbeShare / 4, &tiny_means);
    samples_.dispatch_s = MedianOf(tiny_means, {.shape = WorkShape(copy(kTinyBytes))});
    return done;
  }

  const Model& model_;
  const Cluster& cluster_;
  const ResolvedPlan& plan_;
  const GpuMeasureOptions& options_;
  GpuSamples& samples_;
  const bool is_first_;
  TaskGraph whole_;
  LoweredPlan layers_;
  bool layers_are_new_ = false;  // They have what no plan before had.
  double iteration_s_ = 0;       // Of the layers.
};

}  // namespace

Status MeasureGpuPlan(const Model& model, const Cluster& cluster, const ResolvedPlan& plan,
                      const GpuMeasureOptions& options, GpuSamples* samples) {
  return GpuMeasurement(model, cluster, plan, options, samples).Run();
}

}  // namespace twinstep
