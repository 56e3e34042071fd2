#include "exec/profile/gpu_measurement.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "exec/profile/gpu_slowness.h"
#include "exec/profile/statistics.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

constexpr double kProbeShareOfMemory = 0.25;
// Of a GPU's memory, a lane: layers may take nine tenths (layer_plan.cc), and libraries take some.
constexpr double kCopiesShareOfGpu = 1.0 / 32;
constexpr double kCopiesShareOfHost = 1.0 / 8;  // Pinned at once.
// Operators that take less of their layers' time are not worth a run of these beside copies,
// beside collectives and after rests: others stand for them there.
constexpr double kFewTime = 0.05;
// An operator that lets others in before has not been running at all.
constexpr double kLeastLetsIn = 0.01;
// Of the time that the first layers' warming up takes.
constexpr double kProbesWarmUp = 0.125;

}  // namespace

bool IsHostAdam(const Primitive& primitive) {
  return primitive.on_host && primitive.shape.op == OpCode::kAdam;
}

void AppendTo(std::vector<double>* times, const std::vector<double>& more) {
  times->insert(times->end(), more.begin(), more.end());
}

Status GpuMeasurement::LowerAll() {
  std::set<Primitive> known;
  for (const GpuPlan& plan : plans_) {
    Result<TaskGraph> whole = Lower(model_, *plan.cluster, *plan.plan, {.fold = false});
    if (!whole.ok()) return whole.error();
    whole_pairs_.push_back(FindFusedPairs(whole.value(), options_.pairs));
    wholes_.push_back(std::move(whole).value());
    Result<LoweredPlan> once = LowerLayers(model_, plan, {});
    if (!once.ok()) return once.error();
    bool is_new = false;
    for (const Primitive& primitive : PrimitivesOf(once.value().graph, PairsOf(once.value()))) {
      if (primitive.group_size == 0 && known.insert(primitive).second) is_new = true;
    }
    if (is_new) layers_.push_back({.of = &plan, .once = std::move(once).value(), .plan = {}});
  }
  return Unit{};
}

Result<LoweredPlan> GpuMeasurement::LowerLayers(const Model& model, const GpuPlan& plan,
                                                const FewLayersOptions& options) const {
  Result<LoweredPlan> layers = LowerFewLayers(model, *plan.cluster, *plan.plan, options);
  if (layers.ok()) layers.value().data = options_.data;
  return layers;
}

std::int64_t GpuMeasurement::gpus() const {
  std::int64_t most = 1;
  for (const GpuPlan& plan : plans_) most = std::max(most, plan.plan->gpus);
  return most;
}

std::vector<double> GpuMeasurement::OnAllGpus(const Primitive& primitive, std::size_t of_gpus,
                                              std::vector<double> seconds) const {
  const auto at = samples_.primitives.times.find(primitive);
  if (at == samples_.primitives.times.end()) return seconds;
  const double slowness = SlownessOfFirst(MeanSlowness(at->second.gpu_slowness), of_gpus);
  for (double& x : seconds) x /= slowness;
  return seconds;
}

bool GpuMeasurement::IsMeasured(const Primitive& primitive) const {
  const auto at = samples_.primitives.times.find(primitive);
  return at != samples_.primitives.times.end() && !at->second.alone_s.empty();
}

void GpuMeasurement::AddSlowdowns(const std::map<Primitive, double>& slowdowns) {
  for (const auto& [primitive, slowdown] : slowdowns) {
    PrimitiveTimes& times = TimesOf(primitive);
    if (times.alone_s.empty() || !times.beside_collective_s.empty()) continue;
    times.beside_collective_s.push_back(slowdown * Summarize(times.alone_s).median);
  }
}

void GpuMeasurement::AddLetsIn(const std::map<Primitive, double>& lets_in_s) {
  for (const auto& [primitive, seconds] : lets_in_s) {
    PrimitiveTimes& times = TimesOf(primitive);
    if (times.alone_s.empty() || !times.lets_in_s.empty()) continue;
    const double alone_s = Summarize(times.alone_s).median;
    // At its end, if kernels that ran beside it have kept it longer.
    times.lets_in_s.push_back(std::clamp(seconds, kLeastLetsIn * alone_s, alone_s));
  }
}

bool GpuMeasurement::Lack(const Layers& layers, TimesMember member,
                          const std::function<bool(const Primitive&)>& wanted) const {
  const TaskGraph& graph = layers.plan.graph;
  const FusedPairs pairs = PairsOf(layers.plan);
  double all_s = 0, lacking_s = 0;
  for (TaskId id = 0; id < graph.rank_begin[1]; ++id) {
    const auto primitive = PrimitiveOf(graph, id, pairs);
    if (!primitive || primitive->group_size > 0) continue;
    const PrimitiveTimes& times = samples_.primitives.times.at(*primitive);
    const double seconds = Summarize(times.alone_s).median;
    all_s += seconds;
    if ((times.*member).empty() && wanted(*primitive)) lacking_s += seconds;
  }
  return lacking_s >= kFewTime * all_s;
}

void GpuMeasurement::BeginPhase(const char* what) const {
  if (options_.begin_phase) options_.begin_phase(what);
  if (options_.phase_times != nullptr) options_.phase_times->Begin(what);
}

double GpuMeasurement::WarmUpSeconds() const { return kProbesWarmUp * options_.warm_up_s; }

std::int64_t GpuMeasurement::MostProbeBytes() const {
  return static_cast<std::int64_t>(
      kProbeShareOfMemory * static_cast<double>(plans_.front().cluster->gpu().memory_bytes()));
}

std::int64_t GpuMeasurement::CopyFootprintBytes() const {
  const auto share = [](double part, std::int64_t bytes) {
    return bytes > 0 ? static_cast<std::int64_t>(part * static_cast<double>(bytes))
                     : ProbeGraph::kFootprintBytes;
  };
  const auto lanes = static_cast<double>(2 * gpus());
  return std::min({ProbeGraph::kFootprintBytes,
                   share(kCopiesShareOfGpu, plans_.front().cluster->gpu().memory_bytes()),
                   share(kCopiesShareOfHost / lanes, options_.host_memory_bytes)});
}

RepeatedRunOptions GpuMeasurement::RunOptions(PairRule pairs, int first_gpu) const {
  return {
      .make_backend = [this, pairs, first_gpu] { return options_.make_backend(pairs, first_gpu); },
      .pause_s = options_.sizes.pause_s,
      .pairs = pairs,
      .phase_times = options_.phase_times};
}

ProbeRuns GpuMeasurement::Runs() const {
  return {model_, *plans_.front().plan, options_.data, RunOptions(), WarmUpSeconds()};
}

Status GpuMeasurement::MeasureAlone(const ProbeRuns& runs, ProbeGraph probes, double share,
                                    const std::set<Primitive>* wanted) {
  Means means;
  const Status done = runs.MeasureAlone(std::move(probes), Share(share, 1), &means);
  if (!done.ok()) return done;
  for (const auto& [primitive, times] : means) {
    if (wanted != nullptr && (!wanted->contains(primitive) || IsMeasured(primitive))) continue;
    AppendTo(&TimesOf(primitive).alone_s, times);
  }
  return Unit{};
}

}  // namespace twinstep
