#include "exec/profile/measure_rests.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "exec/profile/measure_clocks.h"
#include "exec/profile/measure_copies.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_runs.h"
#include "exec/profile/repeated_run.h"
#include "sim/graph/task_graph.h"
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

// What is computed where a plan has copies, too.
std::set<Primitive> ComputedBesideCopies(const GpuMeasurement& gpu) {
  std::set<Primitive> computed;
  for (std::size_t i = 0; i < gpu.wholes().size(); ++i) {
    const TaskGraph& whole = gpu.wholes()[i];
    const auto is_copy = [](const Task& task) { return IsCopy(task.kind); };
    if (std::ranges::none_of(whole.tasks, is_copy)) continue;
    const std::vector<Primitive> primitives = PrimitivesOf(whole, gpu.whole_pairs()[i]);
    computed.insert(primitives.begin(), primitives.end());
  }
  return computed;
}

Status MeasureRestedAlone(GpuMeasurement* gpu, const LoweredPlan& layer) {
  RepeatedRun run(layer, gpu->RunOptions());
  if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
  Means rested;
  const Status done = MeasureRested(
      &run, gpu->samples().clocks.boost_s, gpu->sizes().clocks, gpu->options().phase_times,
      [](TaskId) { return true; }, &rested);
  for (const auto& [primitive, times] : rested) {
    if (primitive.group_size == 0) AppendTo(&gpu->TimesOf(primitive).rested_s, times);
  }
  return done;
}

Status MeasureRestedBesideCopies(GpuMeasurement* gpu, std::uint32_t ranks,
                                 const LoweredPlan& layer) {
  const double boost_s = gpu->samples().clocks.boost_s;
  for (const auto& [h2d, d2h, member] :
       {std::tuple<bool, bool, TimesMember>{true, false, &PrimitiveTimes::rested_beside_h2d_s},
        {false, true, &PrimitiveTimes::rested_beside_d2h_s},
        {true, true, &PrimitiveTimes::rested_beside_copies_s}}) {
    Means rested;
    const Status done = gpu->Runs().MeasureBesideRested(
        {.layers = &layer, .first = CopiesBeside(*gpu, ranks, h2d, d2h, kBesideMargin * boost_s)},
        boost_s, gpu->sizes().clocks, &rested);
    if (!done.ok()) return done;
    for (const auto& [primitive, times] : rested) {
      if (primitive.group_size > 0 || IsCopy(primitive.shape.op)) continue;
      AppendTo(&(gpu->TimesOf(primitive).*member), times);
    }
  }
  return Unit{};
}

}  // namespace

Status MeasureRests(GpuMeasurement* gpu) {
  gpu->BeginPhase("layers after a rest");
  if (const Status done = MeasureClocksOfOneRank(gpu); !done.ok()) return done;
  if (!(gpu->samples().clocks.boost_s > 0)) return Unit{};
  Model one = gpu->model();
  one.set_layers(1);
  const std::set<Primitive> beside_copies = ComputedBesideCopies(*gpu);
  const auto is_beside_copies = [&beside_copies](const Primitive& primitive) {
    return beside_copies.contains(primitive);
  };
  for (const GpuMeasurement::Layers& layers : gpu->layers()) {
    const bool alone = gpu->Lack(layers, &PrimitiveTimes::rested_s);
    const bool beside =
        gpu->Lack(layers, &PrimitiveTimes::rested_beside_copies_s, is_beside_copies);
    if (!alone && !beside) continue;
    const Result<LoweredPlan> layer = gpu->LowerLayers(one, *layers.of, {});
    if (!layer.ok()) return layer.error();
    if (alone) {
      const Status done = MeasureRestedAlone(gpu, layer.value());
      if (!done.ok()) return done;
    }
    if (!beside) continue;
    const Status done = MeasureRestedBesideCopies(gpu, layers.ranks(), layer.value());
    if (!done.ok()) return done;
  }
  return Unit{};
}

}  // namespace twinstep
