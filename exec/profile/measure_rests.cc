#include "exec/profile/measure_rests.h"

#include <algorithm>

#include "exec/profile/measure_clocks.h"
#include "exec/profile/repeated_run.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {
namespace {

Status MeasureClocksOfOneRank(GpuMeasurement* gpu) {
  const auto found = std::ranges::find_if(
      gpu->layers(), [](const GpuMeasurement::Layers& layers) { return layers.ranks() == 1; });
  const auto measure = [&](const LoweredPlan& layers) {
    return MeasureClocks(layers, gpu->RunOptions(), gpu->sizes().clocks, &gpu->samples().clocks);
  };
  if (found != gpu->layers().end()) return measure(found->once);
  ResolvedPlan alone = *gpu->plans().front().plan;
  alone.gpus = alone.t = alone.c = alone.d = 1;
  alone.sequence_parallel = false;
  const Result<LoweredPlan> layers =
      gpu->LowerLayers(gpu->model(), {.cluster = gpu->plans().front().cluster, .plan = &alone}, {});
  return layers.ok() ? measure(layers.value()) : layers.error();
}

}  // namespace

Status MeasureRests(GpuMeasurement* gpu) {
  gpu->BeginPhase("layers after a rest");
  if (const Status done = MeasureClocksOfOneRank(gpu); !done.ok()) return done;
  if (!(gpu->samples().clocks.boost_s > 0)) return Unit{};
  Model one = gpu->model();
  one.set_layers(1);
  for (const GpuMeasurement::Layers& layers : gpu->layers()) {
    if (!gpu->Lack(layers, &PrimitiveTimes::rested_s)) continue;
    const Result<LoweredPlan> layer = gpu->LowerLayers(one, *layers.of, {});
    if (!layer.ok()) return layer.error();
    Means rested;
    const Status done = MeasureRested(layer.value(), gpu->samples().clocks.boost_s,
                                      gpu->RunOptions(), gpu->sizes().clocks, &rested);
    if (!done.ok()) return done;
    for (const auto& [primitive, times] : rested) {
      if (primitive.group_size == 0) AppendTo(&gpu->TimesOf(primitive).rested_s, times);
    }
  }
  return Unit{};
}

}  // namespace twinstep
