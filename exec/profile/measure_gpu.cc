#include "exec/profile/measure_gpu.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "exec/profile/collective_company.h"
#include "exec/profile/layer_plan.h"
#include "exec/profile/meetings.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/probe_runs.h"
#include "exec/profile/repeated_run.h"
#include "exec/profile/statistics.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

constexpr int kProbeRepeats = 5;
// Copies and collectives run for so many times what they run beside takes.
constexpr double kCopyMargin = 1.05, kHostCopyMargin = 3;
constexpr std::int64_t kTinyBytes = 1024;
// Host Adam: far beyond caches; of large updates fewer.
constexpr std::int64_t kMostHostElements = std::int64_t{1} << 28;
constexpr int kFewestUpdates = 3;  // The first is not counted.
// Of a GPU's memory, what probes take at once; and of pinned memory, which takes long to make.
constexpr double kProbeShareOfMemory = 0.25;
constexpr std::int64_t kMostPinnedBytes = std::int64_t{2} << 30;
// Operators that take less of their layers' time are not worth a run of these beside copies,
// beside collectives and after rests: others stand for them there.
constexpr double kFewTime = 0.05;

// Shares of the time, each of all runs of its kind together.
constexpr double kAloneShare = 0.35, kOthersShare = 0.08, kGroupsShare = 0.08, kCopiesShare = 0.08,
                 kBesideCopiesShare = 0.18, kBesideCollectivesShare = 0.07, kHostShare = 0.1,
                 kRatesShare = 0.06;
// Of the time that the first layers' warming up takes: of other layers, whose choice of kernels has
// kept the device busy, and of all else.
constexpr double kLayersWarmUp = 0.25, kProbesWarmUp = 0.125;

using TimesMember = std::vector<double> PrimitiveTimes::*;

Primitive CopyPrimitive(bool h2d, std::int64_t bytes) {
  OpShape shape{.op = h2d ? OpCode::kCopyH2D : OpCode::kCopyD2H, .dtype = Dtype::kUint8};
  shape.dims[0] = bytes;
  return {.shape = WorkShape(shape)};
}

OpShape GroupShape(OpCode op, Dtype dtype, std::int64_t bytes) {
  OpShape shape{.op = op, .dtype = dtype};
  shape.dims[0] = bytes;
  return shape;
}

// Of such an operation, as PrimitiveOf has it.
Primitive GroupPrimitive(OpShape shape, std::uint32_t members) {
  if (!Sums(shape.op)) shape.dtype = Dtype::kUint8;
  return {.shape = WorkShape(shape), .group_size = members};
}

bool IsHostAdam(const Primitive& primitive) {
  return primitive.on_host && primitive.shape.op == OpCode::kAdam;
}

void AppendTo(std::vector<double>* times, const std::vector<double>& more) {
  times->insert(times->end(), more.begin(), more.end());
}

class GpuMeasurement {
 public:
  GpuMeasurement(const Model& model, const std::vector<GpuPlan>& plans,
                 const GpuMeasureOptions& options)
      : model_(model), plans_(plans), options_(options) {}

  Result<GpuSamples> Run() {
    for (const auto phase :
         {&GpuMeasurement::LowerAll, &GpuMeasurement::MeasureLayers, &GpuMeasurement::MeasureOthers,
          &GpuMeasurement::MeasureGroups, &GpuMeasurement::MeasureCopies,
          &GpuMeasurement::MeasureLayersBesideCopies,
          &GpuMeasurement::MeasureLayersBesideCollectives, &GpuMeasurement::MeasureRests,
          &GpuMeasurement::MeasureHostAdam, &GpuMeasurement::MeasureRates}) {
      if (const Status done = (this->*phase)(); !done.ok()) return done.error();
    }
    return std::move(samples_);
  }

 private:
  // Layers that have operators which no layers before have.
  struct Layers {
    const GpuPlan* of = nullptr;
    LoweredPlan once, plan;  // The latter as long as the model's.
    double iteration_s = 0;  // Of the latter.
    std::uint32_t ranks() const { return static_cast<std::uint32_t>(once.graph.ranks.size()); }
  };

  double Share(double share, std::size_t runs) const {
    return share * options_.seconds / static_cast<double>(runs);
  }
  double WarmUpSeconds() const { return kProbesWarmUp * options_.warm_up_s; }
  void BeginPhase(const char* what) const {
    if (options_.begin_phase) options_.begin_phase(what);
    if (options_.phase_times != nullptr) options_.phase_times->Begin(what);
  }
  RepeatedRunOptions RunOptions() const {
    return {.make_backend = options_.make_backend,
            .pause_s = options_.sizes.pause_s,
            .phase_times = options_.phase_times};
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
  ProbeRuns Runs() const {
    return {model_, *plans_.front().plan, options_.data, RunOptions(), WarmUpSeconds()};
  }

  Status LowerAll() {
    std::set<Primitive> known;
    for (const GpuPlan& plan : plans_) {
      Result<TaskGraph> whole = Lower(model_, *plan.cluster, *plan.plan, {.fold = false});
      if (!whole.ok()) return whole.error();
      wholes_.push_back(std::move(whole).value());
      Result<LoweredPlan> once = LowerLayers(model_, plan, {});
      if (!once.ok()) return once.error();
      bool is_new = false;
      for (const Primitive& primitive : PrimitivesOf(once.value().graph)) {
        if (primitive.group_size == 0 && known.insert(primitive).second) is_new = true;
      }
      if (is_new) layers_.push_back({.of = &plan, .once = std::move(once).value(), .plan = {}});
    }
    return Unit{};
  }

  Result<LoweredPlan> LowerLayers(const Model& model, const GpuPlan& plan,
                                  const FewLayersOptions& options) const {
    Result<LoweredPlan> layers = LowerFewLayers(model, *plan.cluster, *plan.plan, options);
    if (layers.ok()) layers.value().data = options_.data;
    return layers;
  }

  Status MeasureLayers() {
    BeginPhase("layers alone");
    if (const Status done = WarmUpLayers(); !done.ok()) return done;
    for (Layers& layers : layers_) {
      Result<LoweredPlan> longer = LowerLayers(
          model_, *layers.of, {.most_flops = options_.sizes.layers_s * layers_flops_per_s_});
      if (!longer.ok()) return longer.error();
      layers.plan = std::move(longer).value();
      RepeatedRun run(layers.plan, RunOptions());
      if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
      const Status warm = run.WarmUp(kLayersWarmUp * options_.warm_up_s);
      if (!warm.ok()) return warm;
      LayerMeans means;
      const Status done = run.Measure(Share(kAloneShare, layers_.size()),
                                      [&run, &means] { CollectLayers(&run, &means); });
      if (!done.ok()) return done;
      layers.iteration_s = run.IterationSeconds();
      AddLayers(means);
      samples_.overhead_bytes = std::max(samples_.overhead_bytes, run.OverheadBytes());
      samples_.layers = layers.plan.graph;
      samples_.scratch_bytes = run.ScratchBytes();
    }
    return Unit{};
  }

  // Of the layers' tasks: all, and those that ran without or beside collectives, or these without
  // or beside operators.
  struct LayerMeans {
    Means all, alone, beside;
  };

  static void CollectLayers(RepeatedRun* run, LayerMeans* means) {
    const CollectiveCompany company(run->graph(), [run](TaskId id) { return run->Time(id); });
    run->Collect(&means->all, [](TaskId) { return true; });
    run->Collect(&means->alone,
                 [&](TaskId id) { return company.Of(id) == CollectiveCompany::kNone; });
    run->Collect(&means->beside,
                 [&](TaskId id) { return company.Of(id) == CollectiveCompany::kAlways; });
  }

  // An operator that never runs alone takes what it takes where it stands. Collectives that do not
  // are measured by themselves.
  void AddLayers(const LayerMeans& means) {
    for (const auto& [primitive, times] : means.all) {
      const auto alone = means.alone.find(primitive);
      if (alone != means.alone.end()) {
        AppendTo(&TimesOf(primitive).alone_s, alone->second);
      } else if (primitive.group_size == 0) {
        AppendTo(&TimesOf(primitive).alone_s, times);
      }
    }
    for (const auto& [primitive, times] : means.beside) {
      PrimitiveTimes& of = TimesOf(primitive);
      AppendTo(primitive.group_size == 0 ? &of.beside_collective_s : &of.beside_compute_s, times);
    }
  }

  // How fast they are, which says how long an iteration of them gets.
  Status WarmUpLayers() {
    const LoweredPlan& layers = layers_.front().once;
    RepeatedRun run(layers, RunOptions());
    if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
    if (const Status warm = run.WarmUp(options_.warm_up_s); !warm.ok()) return warm;
    layers_flops_per_s_ = FlopsOfRank(layers.graph) / run.IterationSeconds();
    return Unit{};
  }

  // Whether enough of the layers' operators were not measured so.
  bool Lack(const Layers& layers, TimesMember member) const {
    const TaskGraph& graph = layers.plan.graph;
    double all_s = 0, lacking_s = 0;
    for (TaskId id = 0; id < graph.rank_begin[1]; ++id) {
      const auto primitive = PrimitiveOf(graph, id);
      if (!primitive || primitive->group_size > 0) continue;
      const PrimitiveTimes& times = samples_.primitives.times.at(*primitive);
      const double seconds = Summarize(times.alone_s).median;
      all_s += seconds;
      if ((times.*member).empty()) lacking_s += seconds;
    }
    return lacking_s >= kFewTime * all_s;
  }

  // Operations of the plans that no layers have.
  Status MeasureOthers() {
    BeginPhase("other operators");
    // Together those of plans whose tasks stand at equal places (TaskPlace).
    using Place = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
    std::map<Place, std::vector<std::size_t>> plans_at;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      const ResolvedPlan& plan = *plans_[i].plan;
      plans_at[{plan.t, plan.c, plan.b, plan.sequence_length, plan.sequence_parallel}].push_back(i);
    }
    for (const auto& [place, plans] : plans_at) {
      const ProbeRuns runs(model_, *plans_[plans.front()].plan, options_.data, RunOptions(),
                           WarmUpSeconds());
      const double share = kOthersShare / static_cast<double>(plans_at.size());
      ProbeGraph probes;
      std::set<Primitive> added;
      int tasks = 0;
      std::int64_t bytes = 0;
      for (const std::size_t i : plans) {
        const TaskGraph& whole = wholes_[i];
        for (TaskId id = 0; id < whole.TaskCount(); ++id) {
          const auto primitive = PrimitiveOf(whole, id);
          if (!primitive || primitive->group_size > 0 || IsCopy(primitive->shape.op) ||
              IsHostAdam(*primitive) || IsMeasured(*primitive) ||
              !added.insert(*primitive).second) {
            continue;
          }
          std::int64_t more = 0;
          for (const auto& operands : {whole.Reads(id), whole.Writes(id)}) {
            for (const Operand& x : operands) more += whole.OperandBytes(x);
          }
          if (tasks > 0 && MostProbeBytes() > 0 && bytes + more > MostProbeBytes()) {
            const Status done = MeasureAlone(runs, std::exchange(probes, ProbeGraph()), share);
            if (!done.ok()) return done;
            tasks = 0;
            bytes = 0;
          }
          ++tasks;
          bytes += more;
          probes.AddTask(whole, id, {.times = kProbeRepeats, .on_host = primitive->on_host});
        }
      }
      if (tasks == 0) continue;
      const Status done = MeasureAlone(runs, std::move(probes), share);
      if (!done.ok()) return done;
    }
    return Unit{};
  }

  Status MeasureAlone(ProbeGraph probes, double share) {
    return MeasureAlone(Runs(), std::move(probes), share);
  }
  Status MeasureAlone(const ProbeRuns& runs, ProbeGraph probes, double share) {
    Means means;
    const Status done = runs.MeasureAlone(std::move(probes), Share(share, 1), &means);
    if (!done.ok()) return done;
    for (const auto& [primitive, times] : means) AppendTo(&TimesOf(primitive).alone_s, times);
    return Unit{};
  }

  // Collectives and messages of the plans, of other sizes, and those that run beside layers.
  Status MeasureGroups() {
    BeginPhase("collectives and messages");
    const Meetings all = MissingMeetings();
    for (const auto& [members, meetings] : all) {
      const std::vector<OpShape> others = OtherGroupOperations(members);
      std::size_t meeting = 0, other = 0;
      while (meeting < meetings.size() || other < others.size()) {
        ProbeGraph probes(members);
        std::int64_t bytes = 0;
        // At least one, and no more than the memory has room for.
        const auto has_room = [&](std::int64_t more) {
          bytes += 2 * more;
          return bytes == 2 * more || MostProbeBytes() == 0 || bytes <= MostProbeBytes();
        };
        for (; meeting < meetings.size(); ++meeting) {
          const TaskGraph& whole = *meetings[meeting].graph;
          const std::vector<TaskId>& tasks = meetings[meeting].tasks;
          if (!has_room(whole.shapes[whole.tasks[tasks.front()].shape].dims[0])) break;
          probes.AddRendezvous(whole, tasks, kProbeRepeats);
        }
        for (; meeting == meetings.size() && other < others.size(); ++other) {
          if (!has_room(others[other].dims[0])) break;
          probes.AddGroupOperation(others[other], kProbeRepeats);
        }
        const Status done = MeasureAlone(std::move(probes), kGroupsShare / 2);
        if (!done.ok()) return done;
      }
    }
    return Unit{};
  }

  std::int64_t MostProbeBytes() const {
    return static_cast<std::int64_t>(
        kProbeShareOfMemory * static_cast<double>(plans_.front().cluster->gpu().memory_bytes()));
  }

  // Of the plans; and, without any, of as many members as layers have ranks.
  Meetings MissingMeetings() {
    Meetings meetings = FindMeetings(
        wholes_, [this](const Primitive& primitive) { return !IsMeasured(primitive); });
    for (const auto& [members, of_size] : meetings) samples_.group_sizes.insert(members);
    for (const Layers& layers : layers_) {
      if (layers.ranks() > 1) meetings[layers.ranks()];
    }
    return meetings;
  }

  // What a plan of other sizes would do, the tables' other entries; and what runs beside layers.
  std::vector<OpShape> OtherGroupOperations(std::uint32_t members) const {
    std::set<Dtype> dtypes;
    for (const TaskGraph& whole : wholes_) {
      for (const Buffer& buffer : whole.buffers) {
        if (buffer.role == Role::kParameter || buffer.role == Role::kGradient) {
          dtypes.insert(buffer.dtype);
        }
      }
    }
    std::vector<OpShape> shapes;
    const auto add = [&](OpCode op, Dtype dtype, std::int64_t bytes) {
      const OpShape shape = GroupShape(op, dtype, bytes);
      if (!IsMeasured(GroupPrimitive(shape, members))) shapes.push_back(shape);
    };
    if (samples_.group_sizes.contains(members)) {
      for (const std::int64_t bytes : options_.sizes.collective_bytes) {
        add(OpCode::kAllGather, Dtype::kBf16, bytes);
        for (const Dtype dtype : dtypes) {
          add(OpCode::kAllReduce, dtype, bytes);
          add(OpCode::kReduceScatter, dtype, bytes);
        }
        if (members == 2) add(OpCode::kSend, Dtype::kBf16, bytes);
      }
    }
    if (std::ranges::any_of(layers_, [&](const Layers& x) { return x.ranks() == members; })) {
      for (const OpCode op : kBesideLayers) add(op, Dtype::kBf16, options_.sizes.beside_bytes);
    }
    return shapes;
  }
  // Alternating, as a chunk is gathered and its gradients are reduced.
  static constexpr std::array kBesideLayers{OpCode::kAllGather, OpCode::kReduceScatter};

  // By direction.
  std::set<std::int64_t> CopySizes(bool h2d) const {
    std::set<std::int64_t> sizes(options_.sizes.copy_bytes.begin(),
                                 options_.sizes.copy_bytes.end());
    sizes.insert(options_.sizes.beside_bytes);
    for (const TaskGraph& whole : wholes_) {
      for (const Task& task : whole.tasks) {
        const OpShape& shape = whole.shapes[task.shape];
        if (shape.op == (h2d ? OpCode::kCopyH2D : OpCode::kCopyD2H)) sizes.insert(shape.dims[0]);
      }
    }
    return sizes;
  }

  Status MeasureCopies() {
    BeginPhase("copies");
    for (const bool h2d : {true, false}) {
      ProbeGraph probes;
      std::int64_t pinned = 0;
      for (const std::int64_t bytes : CopySizes(h2d)) {
        if (pinned > 0 && pinned + bytes > kMostPinnedBytes) {
          const Status done = MeasureAlone(std::exchange(probes, ProbeGraph()), kCopiesShare / 4);
          if (!done.ok()) return done;
          pinned = 0;
        }
        pinned += bytes;
        probes.AddCopies(h2d, bytes, kProbeRepeats);
      }
      const Status done = MeasureAlone(std::move(probes), kCopiesShare / 4);
      if (!done.ok()) return done;
    }
    const auto seconds = [&](bool h2d, std::int64_t bytes) {
      return Summarize(TimesOf(CopyPrimitive(h2d, bytes)).alone_s).median;
    };
    const std::int64_t smallest = options_.sizes.copy_bytes.front();
    const std::int64_t largest = options_.sizes.copy_bytes.back();
    samples_.h2d_bytes_per_s = static_cast<double>(largest) / seconds(true, largest);
    samples_.d2h_bytes_per_s = static_cast<double>(largest) / seconds(false, largest);
    samples_.copy_latency_s = seconds(true, smallest);
    const Status done = MeasureBothWays(/*gpus=*/1, &samples_.duplex_bytes_per_s);
    if (!done.ok()) return done;
    for (const bool h2d : {true, false}) {
      const PrimitiveTimes& times = TimesOf(CopyPrimitive(h2d, options_.sizes.beside_bytes));
      (h2d ? samples_.h2d : samples_.d2h).alone_s = Summarize(times.alone_s).median;
      (h2d ? samples_.h2d_both : samples_.d2h_both).alone_s = Summarize(times.both_ways_s).median;
    }
    // What all GPUs' copies get from the host's memory together.
    for (const GpuPlan& plan : plans_) samples_.gpus = std::max(samples_.gpus, plan.plan->gpus);
    if (samples_.gpus == 1) return Unit{};
    return MeasureBothWays(static_cast<std::uint32_t>(samples_.gpus),
                           &samples_.all_gpus_copies_bytes_per_s);
  }

  // The engines take one rate of both directions together.
  Status MeasureBothWays(std::uint32_t gpus, double* bytes_per_s) {
    ProbeGraph both(gpus);
    for (const bool h2d : {true, false}) {
      both.AddCopies(h2d, options_.sizes.beside_bytes, 4 * kProbeRepeats);
    }
    Means both_ways;
    const Status done =
        Runs().MeasureAlone(std::move(both), Share(kCopiesShare / 4, 1), &both_ways);
    if (!done.ok()) return done;
    double both_s = 0;
    for (const auto& [primitive, times] : both_ways) {
      if (gpus == 1) AppendTo(&TimesOf(primitive).both_ways_s, times);
      both_s += Summarize(times).median / 2;
    }
    *bytes_per_s = 2 * gpus * static_cast<double>(options_.sizes.beside_bytes) / both_s;
    return Unit{};
  }

  // Copies of one direction or both beside layers, as long as these, and hardly longer: the device
  // must not cool down meanwhile.
  TaskGraph CopiesBeside(std::uint32_t ranks, bool h2d, bool d2h, double seconds) const {
    const double rate = h2d && d2h ? samples_.duplex_bytes_per_s / 2
                        : h2d      ? samples_.h2d_bytes_per_s
                                   : samples_.d2h_bytes_per_s;
    ProbeGraph copies(ranks);
    for (const bool up : {true, false}) {
      if (up ? h2d : d2h) {
        copies.AddCopies(up, options_.sizes.beside_bytes, CopiesIn(seconds, rate));
      }
    }
    return std::move(copies).Finish();
  }

  Status MeasureLayersBesideCopies() {
    BeginPhase("layers beside copies");
    for (const Layers& layers : layers_) {
      if (!Lack(layers, &PrimitiveTimes::beside_copies_s)) continue;
      for (const auto& [h2d, d2h, member] :
           {std::tuple<bool, bool, TimesMember>{true, false, &PrimitiveTimes::beside_h2d_s},
            {false, true, &PrimitiveTimes::beside_d2h_s},
            {true, true, &PrimitiveTimes::beside_copies_s}}) {
        Means means;
        const Status done = Runs().MeasureBeside(
            {.layers = &layers.plan,
             .first = CopiesBeside(layers.ranks(), h2d, d2h, kCopyMargin * layers.iteration_s),
             .warm_up_s = WarmUpSeconds(),
             .seconds = Share(kBesideCopiesShare, 3 * layers_.size())},
            &means, &samples_.overhead_bytes);
        if (!done.ok()) return done;
        for (const auto& [primitive, times] : means) {
          if (primitive.group_size > 0) continue;
          if (!IsCopy(primitive.shape.op)) {
            AppendTo(&(TimesOf(primitive).*member), times);
            continue;
          }
          const bool up = primitive.shape.op == OpCode::kCopyH2D;
          const double median = Summarize(times).median;
          if (h2d && d2h) {
            (up ? samples_.h2d_both : samples_.d2h_both).beside_compute_s = median;
          } else {
            (up ? samples_.h2d : samples_.d2h).beside_compute_s = median;
          }
        }
      }
    }
    return Unit{};
  }

  // Sums and moves beside the layers; where layers have such times of their own, these stay.
  Status MeasureLayersBesideCollectives() {
    BeginPhase("layers beside collectives");
    std::set<Primitive> known;
    for (const auto& [primitive, times] : samples_.primitives.times) {
      if (!times.beside_collective_s.empty() || !times.beside_compute_s.empty()) {
        known.insert(primitive);
      }
    }
    for (const Layers& layers : layers_) {
      if (layers.ranks() < 2 || !Lack(layers, &PrimitiveTimes::beside_collective_s)) continue;
      std::vector<OpShape> shapes;
      std::set<Primitive> primitives;
      double seconds = 0;
      for (const OpCode op : kBesideLayers) {
        shapes.push_back(GroupShape(op, Dtype::kBf16, options_.sizes.beside_bytes));
        const Primitive primitive = GroupPrimitive(shapes.back(), layers.ranks());
        primitives.insert(primitive);
        seconds += Summarize(TimesOf(primitive).alone_s).median;
      }
      ProbeGraph collectives(layers.ranks());
      collectives.AddGroupOperations(
          shapes, 1 + static_cast<int>(kCopyMargin * layers.iteration_s / seconds));
      Means means;
      const Status done =
          Runs().MeasureBeside({.layers = &layers.plan,
                                .first = std::move(collectives).Finish(),
                                .warm_up_s = WarmUpSeconds(),
                                .seconds = Share(kBesideCollectivesShare, layers_.size()),
                                .is_collectives = true},
                               &means, &samples_.overhead_bytes);
      if (!done.ok()) return done;
      for (const auto& [primitive, times] : means) {
        if (known.contains(primitive)) continue;
        if (primitive.group_size == 0) {
          AppendTo(&TimesOf(primitive).beside_collective_s, times);
        } else if (primitives.contains(primitive)) {
          AppendTo(&TimesOf(primitive).beside_compute_s, times);
        }
      }
    }
    return Unit{};
  }

  Status MeasureRests() {
    BeginPhase("layers after a rest");
    if (const Status done = MeasureClocksOfOneRank(); !done.ok()) return done;
    if (!(samples_.clocks.boost_s > 0)) return Unit{};
    Model one = model_;
    one.set_layers(1);
    for (const Layers& layers : layers_) {
      if (!Lack(layers, &PrimitiveTimes::rested_s)) continue;
      const Result<LoweredPlan> layer = LowerLayers(one, *layers.of, {});
      if (!layer.ok()) return layer.error();
      Means rested;
      const Status done = MeasureRested(layer.value(), samples_.clocks.boost_s, RunOptions(),
                                        options_.sizes.clocks, &rested);
      if (!done.ok()) return done;
      for (const auto& [primitive, times] : rested) {
        if (primitive.group_size == 0) AppendTo(&TimesOf(primitive).rested_s, times);
      }
    }
    return Unit{};
  }

  Status MeasureClocksOfOneRank() {
    const auto found =
        std::ranges::find_if(layers_, [](const Layers& layers) { return layers.ranks() == 1; });
    const auto measure = [&](const LoweredPlan& layers) {
      return MeasureClocks(layers, RunOptions(), options_.sizes.clocks, &samples_.clocks);
    };
    if (found != layers_.end()) return measure(found->once);
    ResolvedPlan alone = *plans_.front().plan;
    alone.gpus = alone.t = alone.c = alone.d = 1;
    alone.sequence_parallel = false;
    const Result<LoweredPlan> layers =
        LowerLayers(model_, {.cluster = plans_.front().cluster, .plan = &alone}, {});
    return layers.ok() ? measure(layers.value()) : layers.error();
  }

  // The largest update that is not too large, of the first plan that has one.
  struct AdamTask {
    const TaskGraph* graph = nullptr;
    TaskId id = kNone;
    std::int64_t elements = 0;
  };
  std::optional<AdamTask> FindAdam() const {
    AdamTask largest;
    for (const TaskGraph& whole : wholes_) {
      for (TaskId id = 0; id < whole.TaskCount(); ++id) {
        const OpShape& shape = whole.shapes[whole.tasks[id].shape];
        if (shape.op != OpCode::kAdam || shape.dims[0] > kMostHostElements) continue;
        if (shape.dims[0] <= largest.elements) continue;
        largest = {.graph = &whole, .id = id, .elements = shape.dims[0]};
      }
      if (largest.graph != nullptr) return largest;
    }
    return std::nullopt;
  }

  // Adam always runs beside the GPU's work, whose dispatcher needs a core, too.
  Status MeasureHostAdam() {
    BeginPhase("Adam on the host");
    const std::optional<AdamTask> adam = FindAdam();
    if (!adam.has_value()) return Unit{};
    // On as many GPUs as there are: they share the host.
    const Layers& layers = *std::ranges::max_element(layers_, {}, &Layers::ranks);
    const auto elements = layers.ranks() * static_cast<double>(adam->elements);
    const int repeats =
        std::clamp(static_cast<int>(static_cast<double>(kMostHostElements) / elements),
                   kFewestUpdates, kProbeRepeats);
    // Layers that compute for longer than all updates take.
    const double least_s = (repeats + 1) * elements / options_.sizes.least_adam_params_per_s;
    const double once_s = FlopsOfRank(layers.once.graph) / layers_flops_per_s_;
    const Result<LoweredPlan> longer =
        LowerLayers(model_, *layers.of,
                    {.micro_batches = FewLayersOptions().micro_batches *
                                      (1 + static_cast<std::int64_t>(least_s / once_s))});
    if (!longer.ok()) return longer.error();
    double adam_s = 0;  // Of one update.
    for (std::size_t i = 0; i < samples_.host_adam_params_per_s.size(); ++i) {
      const bool h2d = i % 2 == 1, d2h = i / 2 == 1;
      ProbeGraph updates(layers.ranks());
      // Each on states of its own, as chunks have them.
      for (std::uint32_t rank = 0; rank < layers.ranks(); ++rank) {
        for (int k = 0; k < repeats; ++k) {
          updates.AddTask(*adam->graph, adam->id, {.rank = rank, .on_host = true});
        }
      }
      TaskGraph first = std::move(updates).Finish();
      if (i > 0) {
        const double seconds = kHostCopyMargin * repeats * adam_s;
        first = Beside(CopiesBeside(layers.ranks(), h2d, d2h, seconds), first);
      }
      Means means;
      const Status done = Runs().MeasureBeside(
          {.layers = &longer.value(),
           .first = std::move(first),
           .warm_up_s = 0,
           .seconds = Share(kHostShare, samples_.host_adam_params_per_s.size())},
          &means, &samples_.overhead_bytes);
      if (!done.ok()) return done;
      for (const auto& [primitive, times] : means) {
        const double seconds = Summarize(times).median;
        if (IsHostAdam(primitive)) {
          samples_.host_adam_params_per_s[i] = elements / seconds;
          if (i == 0) adam_s = seconds;
        } else if (IsCopy(primitive.shape.op)) {
          const bool up = primitive.shape.op == OpCode::kCopyH2D;
          GpuSamples::CopyTimes& one_way = up ? samples_.h2d : samples_.d2h;
          GpuSamples::CopyTimes& both = up ? samples_.h2d_both : samples_.d2h_both;
          (h2d && d2h ? both : one_way).beside_host_s = seconds;
        }
      }
      if (!(adam_s > 0)) return Unit{};
    }
    return Unit{};
  }

  Status MeasureRates() {
    BeginPhase("rates");
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
    const Status measured = Runs().MeasureAlone(std::move(probes), Share(kRatesShare, 2), &means);
    if (!measured.ok()) return measured;
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
    const Status done = Runs().MeasureAlone(std::move(tiny), Share(kRatesShare, 2), &tiny_means);
    samples_.dispatch_s = MedianOf(tiny_means, {.shape = WorkShape(copy(kTinyBytes))});
    return done;
  }

  const Model& model_;
  const std::vector<GpuPlan>& plans_;
  const GpuMeasureOptions& options_;
  GpuSamples samples_;
  std::vector<TaskGraph> wholes_;  // By plan.
  std::vector<Layers> layers_;
  double layers_flops_per_s_ = 0;  // Products of a rank over all that its layers do.
};

}  // namespace

Result<GpuSamples> MeasureGpuPlans(const Model& model, const std::vector<GpuPlan>& plans,
                                   const GpuMeasureOptions& options) {
  return GpuMeasurement(model, plans, options).Run();
}

}  // namespace twinstep
