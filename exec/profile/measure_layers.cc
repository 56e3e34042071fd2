#include "exec/profile/measure_layers.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "exec/profile/collective_overlap.h"
#include "exec/profile/lane_delays.h"
#include "exec/profile/layer_plan.h"
#include "exec/profile/primitive.h"
#include "exec/profile/repeated_run.h"
#include "sim/graph/fused_pairs.h"
#include "sim/graph/task_graph.h"

namespace twinstep {
namespace {

// Of other layers than the first, whose choice of kernels has kept the device busy: of the first
// ones' time.
constexpr double kLayersWarmUp = 0.25;
// Of what layers are measured for, when they run again for a few operators.
constexpr double kUnfusedShare = 0.3;

// An operator that never runs alone takes what it takes where it stands. Collectives that do not
// are measured by themselves.
void AddLayers(const Means& all, const CollectiveOverlap::Times& times, GpuMeasurement* gpu) {
  for (const auto& [primitive, seconds] : times.alone) {
    AppendTo(&gpu->TimesOf(primitive).alone_s, seconds);
  }
  for (const auto& [primitive, seconds] : all) {
    if (primitive.group_size > 0 || times.alone.contains(primitive)) continue;
    AppendTo(&gpu->TimesOf(primitive).alone_s, seconds);
  }
  for (const auto& [primitive, seconds] : times.beside) {
    AppendTo(&gpu->TimesOf(primitive).beside_compute_s, seconds);
  }
  gpu->AddSlowdowns(times.slowdowns);
  gpu->AddLetsIn(times.lets_in_s);
}

void AddDelays(const LaneDelays& delays, GpuMeasurement* gpu) {
  const double handoff_s = delays.HandoffSeconds(), meeting_s = delays.MeetingSeconds();
  if (handoff_s > 0) gpu->samples().lane_handoffs_s.push_back(handoff_s);
  if (meeting_s > 0) gpu->samples().meetings_s.push_back(meeting_s);
}

// How fast they are, which says how long an iteration of them gets.
Status WarmUpLayers(GpuMeasurement* gpu) {
  const LoweredPlan& layers = gpu->layers().front().once;
  RepeatedRun run(layers, gpu->RunOptions());
  if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
  if (const Status warm = run.WarmUp(gpu->options().warm_up_s); !warm.ok()) return warm;
  gpu->set_layers_flops_per_s(FlopsOfRank(layers.graph) / run.IterationSeconds());
  return Unit{};
}

struct LayerTimes {
  Means all;
  CollectiveOverlap::Times beside;
};

// `look` is called after each iteration that counts.
Result<LayerTimes> MeasureLayers(const GpuMeasurement& gpu, double seconds, RepeatedRun* run,
                                 const std::function<void()>& look) {
  if (const Status started = run->Start(/*fill_buffers=*/false); !started.ok()) {
    return started.error();
  }
  const Status warm = run->WarmUp(kLayersWarmUp * gpu.options().warm_up_s);
  if (!warm.ok()) return warm.error();
  LayerTimes times;
  CollectiveOverlap overlap(run->graph(), [run](TaskId id) { return run->PrimitiveOfTask(id); });
  const Status done = run->Measure(seconds, [&] {
    run->Collect(&times.all, [](TaskId) { return true; });
    overlap.AddIteration([run](TaskId id) { return run->Time(id); });
    look();
  });
  if (!done.ok()) return done.error();
  times.beside = overlap.Finish();
  return times;
}

// Operators that plans have alone and these layers only in pairs.
std::set<Primitive> OnlyInPairs(const GpuMeasurement& gpu, const TaskGraph& layers) {
  const std::vector<Primitive> alone = PrimitivesOf(layers);
  std::set<Primitive> wanted;
  for (std::size_t i = 0; i < gpu.wholes().size(); ++i) {
    for (const Primitive& primitive : PrimitivesOf(gpu.wholes()[i], gpu.whole_pairs()[i])) {
      if (primitive.group_size > 0 || gpu.IsMeasured(primitive)) continue;
      if (std::binary_search(alone.begin(), alone.end(), primitive)) wanted.insert(primitive);
    }
  }
  return wanted;
}

// These are measured where they stand, too, as hot and with what others have left in caches: the
// layers run once more, with a kernel for each operator.
Status MeasureUnfused(const LoweredPlan& layers, double seconds, GpuMeasurement* gpu) {
  const std::set<Primitive> wanted = OnlyInPairs(*gpu, layers.graph);
  if (wanted.empty()) return Unit{};
  RepeatedRun run(layers, gpu->RunOptions(PairRule::kNoPairs));
  Result<LayerTimes> measured = MeasureLayers(*gpu, seconds, &run, [] {});
  if (!measured.ok()) return measured.error();
  LayerTimes& times = measured.value();
  const auto is_unwanted = [&wanted](const auto& entry) { return !wanted.contains(entry.first); };
  std::erase_if(times.all, is_unwanted);
  std::erase_if(times.beside.alone, is_unwanted);
  std::erase_if(times.beside.beside, is_unwanted);
  std::erase_if(times.beside.slowdowns, is_unwanted);
  std::erase_if(times.beside.lets_in_s, is_unwanted);
  AddLayers(times.all, times.beside, gpu);
  return Unit{};
}

}  // namespace

Status MeasureLayersAlone(GpuMeasurement* gpu) {
  gpu->BeginPhase("layers alone");
  if (const Status done = WarmUpLayers(gpu); !done.ok()) return done;
  const double seconds = gpu->Share(kAloneShare, gpu->layers().size());
  for (GpuMeasurement::Layers& layers : gpu->layers()) {
    Result<LoweredPlan> longer =
        gpu->LowerLayers(gpu->model(), *layers.of,
                         {.most_flops = gpu->sizes().layers_s * gpu->layers_flops_per_s()});
    if (!longer.ok()) return longer.error();
    layers.plan = std::move(longer).value();
    RepeatedRun run(layers.plan, gpu->RunOptions());
    LaneDelays delays(run.graph());
    const Result<LayerTimes> times = MeasureLayers(*gpu, seconds, &run, [&] {
      delays.AddIteration([&run](TaskId id) { return run.Time(id); });
    });
    if (!times.ok()) return times.error();
    layers.iteration_s = run.IterationSeconds();
    AddLayers(times.value().all, times.value().beside, gpu);
    AddDelays(delays, gpu);
    gpu->samples().overhead_bytes = std::max(gpu->samples().overhead_bytes, run.OverheadBytes());
    gpu->samples().layers = layers.plan.graph;
    gpu->samples().scratch_bytes = run.ScratchBytes();
  }
  // What only some layers have in pairs others may have alone.
  for (const GpuMeasurement::Layers& layers : gpu->layers()) {
    const Status done = MeasureUnfused(layers.plan, kUnfusedShare * seconds, gpu);
    if (!done.ok()) return done;
  }
  return Unit{};
}

}  // namespace twinstep
