#include "exec/profile/measure_layers.h"

#include <algorithm>
#include <utility>

#include "exec/profile/collective_overlap.h"
#include "exec/profile/lane_delays.h"
#include "exec/profile/layer_plan.h"
#include "exec/profile/repeated_run.h"

namespace twinstep {
namespace {

// Of other layers than the first, whose choice of kernels has kept the device busy: of the first
// ones' time.
constexpr double kLayersWarmUp = 0.25;

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

}  // namespace

Status MeasureLayersAlone(GpuMeasurement* gpu) {
  gpu->BeginPhase("layers alone");
  if (const Status done = WarmUpLayers(gpu); !done.ok()) return done;
  for (GpuMeasurement::Layers& layers : gpu->layers()) {
    Result<LoweredPlan> longer =
        gpu->LowerLayers(gpu->model(), *layers.of,
                         {.most_flops = gpu->sizes().layers_s * gpu->layers_flops_per_s()});
    if (!longer.ok()) return longer.error();
    layers.plan = std::move(longer).value();
    RepeatedRun run(layers.plan, gpu->RunOptions());
    if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
    const Status warm = run.WarmUp(kLayersWarmUp * gpu->options().warm_up_s);
    if (!warm.ok()) return warm;
    Means all;
    LaneDelays delays(run.graph());
    CollectiveOverlap overlap(run.graph(), [&run](TaskId id) { return run.PrimitiveOfTask(id); });
    const Status done = run.Measure(gpu->Share(kAloneShare, gpu->layers().size()), [&] {
      run.Collect(&all, [](TaskId) { return true; });
      const auto time = [&run](TaskId id) { return run.Time(id); };
      overlap.AddIteration(time);
      delays.AddIteration(time);
    });
    if (!done.ok()) return done;
    layers.iteration_s = run.IterationSeconds();
    AddLayers(all, overlap.Finish(), gpu);
    AddDelays(delays, gpu);
    gpu->samples().overhead_bytes = std::max(gpu->samples().overhead_bytes, run.OverheadBytes());
    gpu->samples().layers = layers.plan.graph;
    gpu->samples().scratch_bytes = run.ScratchBytes();
  }
  return Unit{};
}

}  // namespace twinstep
