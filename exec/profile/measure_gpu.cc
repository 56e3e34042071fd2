#include "exec/profile/measure_gpu.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "exec/profile/layer_plan.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/repeated_run.h"
#include "exec/profile/statistics.h"
#include "sim/graph/arena.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

constexpr int kProbeRepeats = 5;
// Copies and collectives run for so many times what they run beside takes.
constexpr double kCopyMargin = 1.05, kHostCopyMargin = 3;
constexpr std::int64_t kTinyBytes = 1024;
// Host Adam: far beyond caches; of large updates fewer.
constexpr std::int64_t kMostHostElements = std::int64_t{1} << 28;
constexpr int kFewestUpdates = 2;
// Of a GPU's memory, what probes of collectives take at once.
constexpr double kGroupShareOfMemory = 0.25;

// Shares of the time.
constexpr double kAloneShare = 0.3, kBesideShare = 0.06, kProbeShare = 0.1, kCopyShare = 0.1,
                 kHostShare = 0.05;

Primitive CopyPrimitive(bool h2d, std::int64_t bytes) {
  OpShape shape{.op = h2d ? OpCode::kCopyH2D : OpCode::kCopyD2H, .dtype = Dtype::kUint8};
  shape.dims[0] = bytes;
  return {.shape = WorkShape(shape)};
}

void AppendTo(std::vector<double>* times, const std::vector<double>& more) {
  times->insert(times->end(), more.begin(), more.end());
}

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
    Result<TaskGraph> whole = Lower(model_, cluster_, plan_, {.fold = false});
    if (!whole.ok()) return whole.error();
    whole_ = std::move(whole).value();
    for (const auto phase :
         {&GpuMeasurement::MeasureLayers, &GpuMeasurement::MeasureOthers,
          &GpuMeasurement::MeasureGroups, &GpuMeasurement::MeasureCopies,
          &GpuMeasurement::MeasureLayersBesideCopies,
          &GpuMeasurement::MeasureLayersBesideCollectives, &GpuMeasurement::MeasureRests,
          &GpuMeasurement::MeasureHostAdam, &GpuMeasurement::MeasureRates}) {
      if (const Status done = (this->*phase)(); !done.ok()) return done;
    }
    return Unit{};
  }

 private:
  double WarmUpSeconds() const { return options_.warm_up_s / 4; }
  void BeginPhase(const char* what) const {
    if (options_.begin_phase) options_.begin_phase(what);
    if (options_.phase_times != nullptr) options_.phase_times->Begin(what);
  }
  RepeatedRunOptions RunOptions() const {
    return {.make_backend = options_.make_backend,
            .pause_s = options_.sizes.pause_s,
            .phase_times = options_.phase_times};
  }
  LoweredPlan LoweredGraph(TaskGraph graph) const {
    LoweredPlan lowered{.model = layers_.model,
                        .plan = layers_.plan,
                        .graph = std::move(graph),
                        .arena = {},
                        .data = options_.data};
    lowered.arena = PlanArena(lowered.graph);
    return lowered;
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
    layers_.data = options_.data;
    const std::vector<Primitive> primitives = PrimitivesOf(layers_.graph);
    layers_are_new_ =
        NeedsHostAdam() || !std::ranges::all_of(primitives, [this](const Primitive& primitive) {
          return primitive.group_size > 0 || IsMeasured(primitive);
        });
    if (!layers_are_new_) return Unit{};
    layers_flops_ = FlopsOfRank(layers_.graph);
    if (const Status done = WarmUpLayers(); !done.ok()) return done;
    Result<LoweredPlan> longer =
        LowerFewLayers(model_, cluster_, plan_,
                       {.most_flops = options_.sizes.layers_s * samples_.layers_flops_per_s});
    if (!longer.ok()) return longer.error();
    layers_ = std::move(longer).value();
    layers_.data = options_.data;
    RepeatedRun run(layers_, RunOptions());
    if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
    if (const Status warm = run.WarmUp(options_.warm_up_s / 2); !warm.ok()) return warm;
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

  // How fast they are, which says how long an iteration of them gets.
  Status WarmUpLayers() {
    if (samples_.layers_flops_per_s > 0) return Unit{};
    RepeatedRun run(layers_, RunOptions());
    if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
    if (const Status warm = run.WarmUp(options_.warm_up_s); !warm.ok()) return warm;
    samples_.layers_flops_per_s = layers_flops_ / run.IterationSeconds();
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
    return MeasureAlone(std::move(probes), kProbeShare);
  }

  Status MeasureProbes(ProbeGraph probes, double share, Means* means) {
    RepeatedRun run(LoweredGraph(std::move(probes).Finish()), RunOptions());
    if (const Status started = run.Start(/*fill_buffers=*/true); !started.ok()) return started;
    if (const Status warm = run.WarmUp(WarmUpSeconds()); !warm.ok()) return warm;
    return run.Measure(share * options_.seconds, means);
  }

  Status MeasureAlone(ProbeGraph probes, double share) {
    Means means;
    const Status done = MeasureProbes(std::move(probes), share, &means);
    if (!done.ok()) return done;
    for (const auto& [primitive, times] : means) AppendTo(&TimesOf(primitive).alone_s, times);
    return Unit{};
  }

  // Collectives and messages of the plan, and those of other sizes.
  Status MeasureGroups() {
    BeginPhase("collectives and messages");
    for (const auto& [members, meetings] : MissingMeetings()) {
      const bool is_new = samples_.group_sizes.insert(members).second;
      std::vector<OpShape> others;
      if (is_new) others = OtherGroupOperations(members);
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
          const OpShape& shape = whole_.shapes[whole_.tasks[meetings[meeting].front()].shape];
          if (!has_room(shape.dims[0])) break;
          probes.AddRendezvous(whole_, meetings[meeting], kProbeRepeats);
        }
        for (; meeting == meetings.size() && other < others.size(); ++other) {
          if (!has_room(others[other].dims[0])) break;
          probes.AddGroupOperation(others[other], kProbeRepeats);
        }
        const Status done = MeasureAlone(std::move(probes), kProbeShare / 2);
        if (!done.ok()) return done;
      }
    }
    return Unit{};
  }

  std::int64_t MostProbeBytes() const {
    return static_cast<std::int64_t>(kGroupShareOfMemory *
                                     static_cast<double>(cluster_.gpu().memory_bytes()));
  }

  // By members: of each primitive that was not measured a rendezvous, its tasks in group order.
  using Meetings = std::map<std::uint32_t, std::vector<std::vector<TaskId>>>;
  Meetings MissingMeetings() const {
    std::vector<std::vector<TaskId>> tasks(whole_.rendezvous.size());
    for (TaskId id = 0; id < whole_.TaskCount(); ++id) {
      const RendezvousId rendezvous = whole_.tasks[id].rendezvous;
      if (rendezvous != kNone) tasks[rendezvous].push_back(id);
    }
    Meetings meetings;
    std::set<Primitive> added;
    for (RendezvousId rendezvous = 0; rendezvous < tasks.size(); ++rendezvous) {
      const GroupId group_id = whole_.rendezvous[rendezvous].group;
      if (group_id == kNone || whole_.groups[group_id].members.size() < 2) continue;
      const std::vector<std::uint32_t>& group = whole_.groups[group_id].members;
      const auto place = [&](TaskId id) {
        const std::uint32_t rank = whole_.ranks[whole_.tasks[id].rank].global_rank;
        return std::ranges::find(group, rank) - group.begin();
      };
      std::ranges::sort(tasks[rendezvous], {}, place);
      auto& of_size = meetings[static_cast<std::uint32_t>(group.size())];
      for (const TaskId id : tasks[rendezvous]) {
        const auto primitive = PrimitiveOf(whole_, id);
        if (!primitive || IsMeasured(*primitive) || !added.insert(*primitive).second) continue;
        of_size.push_back(tasks[rendezvous]);
      }
    }
    return meetings;
  }

  // What a plan of other sizes would do: the tables' other entries.
  std::vector<OpShape> OtherGroupOperations(std::uint32_t members) const {
    std::set<Dtype> dtypes;
    for (const Buffer& buffer : whole_.buffers) {
      if (buffer.role == Role::kParameter || buffer.role == Role::kGradient) {
        dtypes.insert(buffer.dtype);
      }
    }
    std::vector<OpShape> shapes;
    const auto add = [&](OpCode op, Dtype dtype, std::int64_t bytes) {
      OpShape shape{.op = op, .dtype = dtype};
      shape.dims[0] = bytes;
      const Primitive primitive{.shape = WorkShape(Sums(op) ? shape : CopyOfBytes(shape)),
                                .group_size = members};
      if (!IsMeasured(primitive)) shapes.push_back(shape);
    };
    for (const std::int64_t bytes : options_.sizes.collective_bytes) {
      add(OpCode::kAllGather, Dtype::kBf16, bytes);
      for (const Dtype dtype : dtypes) {
        add(OpCode::kAllReduce, dtype, bytes);
        add(OpCode::kReduceScatter, dtype, bytes);
      }
      if (members == 2) add(OpCode::kSend, Dtype::kBf16, bytes);
    }
    return shapes;
  }
  static OpShape CopyOfBytes(OpShape shape) {
    shape.dtype = Dtype::kUint8;
    return shape;
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
    if (sizes.empty()) return MeasureAllGpusCopies();
    Means alone;
    for (const bool h2d : {true, false}) {
      ProbeGraph probes;
      for (const std::int64_t bytes : sizes) probes.AddCopies(h2d, bytes, kProbeRepeats);
      const Status done = MeasureProbes(std::move(probes), kCopyShare / 3, &alone);
      if (!done.ok()) return done;
    }
    for (const auto& [primitive, times] : alone) AppendTo(&TimesOf(primitive).alone_s, times);
    if (!is_first_) return MeasureAllGpusCopies();
    const auto rate = [&](bool h2d) {
      const auto largest = static_cast<double>(options_.sizes.copy_bytes.back());
      return largest / MedianOf(alone, CopyPrimitive(h2d, options_.sizes.copy_bytes.back()));
    };
    samples_.h2d_bytes_per_s = rate(true);
    samples_.d2h_bytes_per_s = rate(false);
    samples_.copy_latency_s =
        MedianOf(alone, CopyPrimitive(true, options_.sizes.copy_bytes.front()));
    const Status done = MeasureBothWays(/*gpus=*/1, &samples_.duplex_bytes_per_s);
    if (!done.ok()) return done;
    for (const bool h2d : {true, false}) {
      const PrimitiveTimes& times = TimesOf(CopyPrimitive(h2d, options_.sizes.beside_bytes));
      (h2d ? samples_.h2d : samples_.d2h).alone_s = Summarize(times.alone_s).median;
      (h2d ? samples_.h2d_both : samples_.d2h_both).alone_s = Summarize(times.both_ways_s).median;
    }
    return MeasureAllGpusCopies();
  }

  // What all GPUs' copies get from the host's memory together.
  Status MeasureAllGpusCopies() {
    if (plan_.gpus <= samples_.gpus) return Unit{};
    samples_.gpus = plan_.gpus;
    if (plan_.gpus == 1) return Unit{};
    return MeasureBothWays(static_cast<std::uint32_t>(plan_.gpus),
                           &samples_.all_gpus_copies_bytes_per_s);
  }

  // The engines take one rate of both directions together.
  Status MeasureBothWays(std::uint32_t gpus, double* bytes_per_s) {
    ProbeGraph both(gpus);
    for (const bool h2d : {true, false}) {
      both.AddCopies(h2d, options_.sizes.beside_bytes, 4 * kProbeRepeats);
    }
    Means both_ways;
    const Status done = MeasureProbes(std::move(both), kCopyShare / 3, &both_ways);
    if (!done.ok()) return done;
    double both_s = 0;
    for (const auto& [primitive, times] : both_ways) {
      if (gpus == 1) AppendTo(&TimesOf(primitive).both_ways_s, times);
      both_s += Summarize(times).median / 2;
    }
    *bytes_per_s = 2 * gpus * static_cast<double>(options_.sizes.beside_bytes) / both_s;
    return Unit{};
  }

  // A plan with something beside it, alone on its lanes.
  struct BesideRun {
    const LoweredPlan* plan = nullptr;
    TaskGraph first;
    double warm_up_s = 0, share = 0;
  };
  // What both take together, each task that ran all the time beside the other graph's.
  Status MeasureBeside(const BesideRun& beside, Means* means) {
    LoweredPlan both = LoweredGraph(Beside(beside.first, beside.plan->graph));
    both.plan = beside.plan->plan;
    RepeatedRun run(std::move(both), RunOptions());
    if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
    if (const Status warm = run.WarmUp(beside.warm_up_s); !warm.ok()) return warm;
    const Status done = run.Measure(beside.share * options_.seconds, means,
                                    [&](TaskId id) { return RunsBeside(run, beside.first, id); });
    samples_.overhead_bytes = std::max(samples_.overhead_bytes, run.OverheadBytes());
    return done;
  }

  static bool RunsBeside(const RepeatedRun& run, const TaskGraph& first, TaskId id) {
    const TaskGraph& graph = run.graph();
    const RankId rank = graph.tasks[id].rank;
    const TaskId begin = graph.rank_begin[rank], end = graph.rank_begin[rank + 1];
    const TaskId middle = begin + first.rank_begin[rank + 1] - first.rank_begin[rank];
    const TaskTime time = run.Time(id);
    const auto within = [&](TaskId from, TaskId to) {
      return time.start_ns >= run.Time(from).start_ns && time.end_ns <= run.Time(to).end_ns;
    };
    // The layers compute for longer than all host tasks take, however small these are.
    const bool is_on_host = graph.tasks[id].kind == TaskKind::kHost;
    if (id < middle && !is_on_host && !within(middle, end - 1)) return false;
    // While each other lane of the first graph ran.
    std::array<std::pair<TaskId, TaskId>, kLaneCount> lanes;
    lanes.fill({kNone, kNone});
    for (TaskId other = begin; other < middle; ++other) {
      if (graph.tasks[other].lane == graph.tasks[id].lane) continue;
      auto& [lane_begin, lane_end] = lanes[static_cast<std::size_t>(graph.tasks[other].lane)];
      if (lane_begin == kNone) lane_begin = other;
      lane_end = other;
    }
    return std::ranges::all_of(lanes, [&](const auto& lane) {
      return lane.first == kNone || within(lane.first, lane.second);
    });
  }

  // Copies of one direction or both beside the layers, as long as these, and hardly longer: the
  // device must not cool down meanwhile.
  TaskGraph CopiesBeside(bool h2d, bool d2h, double seconds) const {
    const double rate = h2d && d2h ? samples_.duplex_bytes_per_s / 2
                        : h2d      ? samples_.h2d_bytes_per_s
                                   : samples_.d2h_bytes_per_s;
    ProbeGraph copies(static_cast<std::uint32_t>(layers_.graph.ranks.size()));
    for (const bool up : {true, false}) {
      if (up ? h2d : d2h) {
        copies.AddCopies(up, options_.sizes.beside_bytes, CopiesIn(seconds, rate));
      }
    }
    return std::move(copies).Finish();
  }

  Status MeasureLayersBesideCopies() {
    BeginPhase("layers beside copies");
    if (!layers_are_new_) return Unit{};
    using Member = std::vector<double> PrimitiveTimes::*;
    for (const auto& [h2d, d2h, member] :
         {std::tuple<bool, bool, Member>{true, false, &PrimitiveTimes::beside_h2d_s},
          {false, true, &PrimitiveTimes::beside_d2h_s},
          {true, true, &PrimitiveTimes::beside_copies_s}}) {
      Means means;
      const Status done =
          MeasureBeside({.plan = &layers_,
                         .first = CopiesBeside(h2d, d2h, kCopyMargin * iteration_s_),
                         .warm_up_s = WarmUpSeconds(),
                         .share = kBesideShare},
                        &means);
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
          AppendTo(&TimesOf(primitive).beside_compute_s, times);
          (up ? samples_.h2d : samples_.d2h).beside_compute_s = median;
        }
      }
    }
    return Unit{};
  }

  // Sums and moves beside the layers.
  Status MeasureLayersBesideCollectives() {
    BeginPhase("layers beside collectives");
    const auto ranks = static_cast<std::uint32_t>(layers_.graph.ranks.size());
    if (!layers_are_new_ || ranks < 2) return Unit{};
    ProbeGraph collectives(ranks);
    std::vector<OpShape> shapes;
    double seconds = 0;
    for (const OpCode op : {OpCode::kAllGather, OpCode::kReduceScatter}) {
      OpShape shape{.op = op, .dtype = Dtype::kBf16};
      shape.dims[0] = options_.sizes.beside_bytes;
      Means means;
      ProbeGraph alone(ranks);
      alone.AddGroupOperation(shape, kProbeRepeats);
      const Status done = MeasureProbes(std::move(alone), kProbeShare / 4, &means);
      if (!done.ok()) return done;
      for (const auto& [primitive, times] : means) {
        AppendTo(&TimesOf(primitive).alone_s, times);
        seconds += Summarize(times).median;
      }
      shapes.push_back(shape);
    }
    // Alternating, as a chunk is gathered and its gradients are reduced.
    const int pairs = 1 + static_cast<int>(kCopyMargin * iteration_s_ / seconds);
    collectives.AddGroupOperations(shapes, pairs);
    Means means;
    const Status done = MeasureBeside({.plan = &layers_,
                                       .first = std::move(collectives).Finish(),
                                       .warm_up_s = WarmUpSeconds(),
                                       .share = kBesideShare},
                                      &means);
    if (!done.ok()) return done;
    for (const auto& [primitive, times] : means) {
      if (primitive.group_size == 0) {
        AppendTo(&TimesOf(primitive).beside_collective_s, times);
      } else if (std::ranges::any_of(shapes, [&](const OpShape& shape) {
                   return shape.op == primitive.shape.op &&
                          shape.dims[0] == primitive.shape.dims[0];
                 })) {
        AppendTo(&TimesOf(primitive).beside_compute_s, times);
      }
    }
    return Unit{};
  }

  Status MeasureRests() {
    BeginPhase("layers after a rest");
    if (!layers_are_new_) return Unit{};
    if (is_first_) {
      ResolvedPlan alone = plan_;
      alone.gpus = alone.t = alone.c = alone.d = 1;
      alone.sequence_parallel = false;
      Result<LoweredPlan> layers = LowerFewLayers(model_, cluster_, alone);
      if (!layers.ok()) return layers.error();
      layers.value().data = options_.data;
      const Status done =
          MeasureClocks(layers.value(), RunOptions(), options_.sizes.clocks, &samples_.clocks);
      if (!done.ok()) return done;
    }
    if (!(samples_.clocks.boost_s > 0)) return Unit{};
    Model one = model_;
    one.set_layers(1);
    Result<LoweredPlan> layer = LowerFewLayers(one, cluster_, plan_);
    if (!layer.ok()) return layer.error();
    layer.value().data = options_.data;
    Means rested;
    const Status done = MeasureRested(layer.value(), samples_.clocks.boost_s, RunOptions(),
                                      options_.sizes.clocks, &rested);
    if (!done.ok()) return done;
    for (const auto& [primitive, times] : rested) {
      if (primitive.group_size == 0) AppendTo(&TimesOf(primitive).rested_s, times);
    }
    return Unit{};
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

  bool NeedsHostAdam() const {
    return !(samples_.host_adam_params_per_s[0] > 0) && AdamTask() != kNone;
  }

  // Adam always runs beside the GPU's work, whose dispatcher needs a core, too.
  Status MeasureHostAdam() {
    BeginPhase("Adam on the host");
    if (!NeedsHostAdam()) return Unit{};
    const TaskId adam = AdamTask();
    const auto ranks = static_cast<std::uint32_t>(layers_.graph.ranks.size());
    const auto elements =
        ranks * static_cast<double>(whole_.shapes[whole_.tasks[adam].shape].dims[0]);
    // Layers that compute for longer than all updates take.
    const int repeats =
        std::clamp(static_cast<int>(static_cast<double>(kMostHostElements) / elements),
                   kFewestUpdates, kProbeRepeats);
    const double least_s = (repeats + 1) * elements / options_.sizes.least_adam_params_per_s;
    const double layers_s = layers_flops_ / samples_.layers_flops_per_s;
    Result<LoweredPlan> longer =
        LowerFewLayers(model_, cluster_, plan_,
                       {.micro_batches = FewLayersOptions().micro_batches *
                                         (1 + static_cast<std::int64_t>(least_s / layers_s))});
    if (!longer.ok()) return longer.error();
    double adam_s = 0;  // Of one update.
    for (std::size_t i = 0; i < samples_.host_adam_params_per_s.size(); ++i) {
      const bool h2d = i % 2 == 1, d2h = i / 2 == 1;
      ProbeGraph updates(ranks);
      // Each on states of its own, as chunks have them.
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        for (int k = 0; k < repeats; ++k) {
          updates.AddTask(whole_, adam, {.rank = rank, .on_host = true});
        }
      }
      TaskGraph first = std::move(updates).Finish();
      if (i > 0) {
        const double seconds = kHostCopyMargin * repeats * adam_s;
        first = Beside(CopiesBeside(h2d, d2h, seconds), first);
      }
      Means means;
      const Status done = MeasureBeside(
          {.plan = &longer.value(), .first = std::move(first), .share = kHostShare}, &means);
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
  // They have what no plan before had, or Adam beside them is to be measured.
  bool layers_are_new_ = false;
  double layers_flops_ = 0;  // Products of a rank, the layers once.
  double iteration_s_ = 0;   // Of the layers.
};

}  // namespace

Status MeasureGpuPlan(const Model& model, const Cluster& cluster, const ResolvedPlan& plan,
                      const GpuMeasureOptions& options, GpuSamples* samples) {
  return GpuMeasurement(model, cluster, plan, options, samples).Run();
}

}  // namespace twinstep
