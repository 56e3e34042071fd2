#include "exec/profile/measure_layers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "exec/profile/collective_overlap.h"
#include "exec/profile/gpu_slowness.h"
#include "exec/profile/lane_delays.h"
#include "exec/profile/layer_copies.h"
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

// Of some layers' ranks on the first GPUs, and how all GPUs differ where they have them all.
struct LayerTimes {
  std::size_t ranks = 1;
  Means all;
  CollectiveOverlap::Times beside;
  std::map<Primitive, GpuSlowness> slowness;  // Of operators.
};

// Times are brought to the mean of all GPUs. An operator that never runs alone takes what it takes
// where it stands. Collectives that do not are measured by themselves.
void AddLayers(const LayerTimes& layers, GpuMeasurement* gpu) {
  const CollectiveOverlap::Times& times = layers.beside;
  const auto add_alone = [&](const Primitive& primitive, std::vector<double> seconds) {
    const auto at = layers.slowness.find(primitive);
    if (at != layers.slowness.end()) {
      for (double& x : seconds) x /= SlownessOfFirst(at->second, layers.ranks);
    }
    AppendTo(&gpu->TimesOf(primitive).alone_s, seconds);
  };
  for (const auto& [primitive, seconds] : times.alone) add_alone(primitive, seconds);
  for (const auto& [primitive, seconds] : layers.all) {
    if (primitive.group_size > 0 || times.alone.contains(primitive)) continue;
    add_alone(primitive, seconds);
  }
  for (const auto& [primitive, slowness] : layers.slowness) {
    gpu->TimesOf(primitive).gpu_slowness.push_back(slowness);
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

// On as many GPUs as the plans have.
LayerCopies CopiesOf(const LoweredPlan& layers, const GpuMeasurement& gpu, PairRule pairs) {
  return LayerCopies(layers, static_cast<int>(gpu.gpus()),
                     [&gpu, pairs](int first_gpu) { return gpu.RunOptions(pairs, first_gpu); });
}

// How fast they are, which says how long an iteration of them gets.
Status WarmUpLayers(GpuMeasurement* gpu) {
  const LoweredPlan& layers = gpu->layers().front().once;
  LayerCopies copies = CopiesOf(layers, *gpu, gpu->options().pairs);
  if (const Status started = copies.Start(); !started.ok()) return started;
  const Status warm = copies.OnEach([gpu](std::size_t /*copy*/, RepeatedRun* run) {
    return run->WarmUp(gpu->options().warm_up_s);
  });
  if (!warm.ok()) return warm;
  gpu->set_layers_flops_per_s(FlopsOfRank(layers.graph) / copies.first().IterationSeconds());
  return Unit{};
}

// Operators' times of all GPUs.
std::map<Primitive, GpuSlowness> CompareGpus(const std::vector<Means>& by_gpu) {
  std::map<Primitive, GpuSlowness> slowness;
  for (const auto& [primitive, times] : by_gpu.front()) {
    // What has no kernel of its own is no matter of clocks, nor is what moves bytes.
    if (IsLaunchedWithPartner(primitive.fusion) || primitive.group_size > 0 || primitive.on_host ||
        IsCopy(primitive.shape.op)) {
      continue;
    }
    std::vector<std::vector<double>> of_gpus;
    for (const Means& of_gpu : by_gpu) {
      const auto at = of_gpu.find(primitive);
      of_gpus.push_back(at == of_gpu.end() ? std::vector<double>() : at->second);
    }
    GpuSlowness of_primitive = SlownessOf(of_gpus);
    if (!of_primitive.empty()) slowness[primitive] = std::move(of_primitive);
  }
  return slowness;
}

// `look` is called after each iteration that counts of the first copy, of which all times are but
// how GPUs differ.
Result<LayerTimes> MeasureLayers(const GpuMeasurement& gpu, double seconds, LayerCopies* copies,
                                 const std::function<void()>& look) {
  if (const Status started = copies->Start(); !started.ok()) return started.error();
  const std::size_t ranks = copies->ranks();
  LayerTimes times{.ranks = ranks, .all = {}, .beside = {}, .slowness = {}};
  std::vector<Means> by_gpu(copies->size() * ranks);
  RepeatedRun& first = copies->first();
  CollectiveOverlap overlap(first.graph(),
                            [&first](TaskId id) { return first.PrimitiveOfTask(id); });
  const Status done = copies->OnEach([&](std::size_t copy, RepeatedRun* run) {
    const Status warm = run->WarmUp(kLayersWarmUp * gpu.options().warm_up_s);
    if (!warm.ok()) return warm;
    return run->Measure(seconds, [&, copy, run] {
      for (std::size_t rank = 0; rank < ranks && gpu.gpus() > 1; ++rank) {
        run->Collect(&by_gpu[copy * ranks + rank],
                     [&](TaskId id) { return run->graph().tasks[id].rank == rank; });
      }
      if (copy > 0) return;
      run->Collect(&times.all, [](TaskId) { return true; });
      overlap.AddIteration([run](TaskId id) { return run->Time(id); });
      look();
    });
  });
  if (!done.ok()) return done.error();
  times.beside = overlap.Finish();
  if (static_cast<std::int64_t>(by_gpu.size()) == gpu.gpus()) times.slowness = CompareGpus(by_gpu);
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
  LayerCopies copies = CopiesOf(layers, *gpu, PairRule::kNoPairs);
  Result<LayerTimes> measured = MeasureLayers(*gpu, seconds, &copies, [] {});
  if (!measured.ok()) return measured.error();
  LayerTimes& times = measured.value();
  const auto is_unwanted = [&wanted](const auto& entry) { return !wanted.contains(entry.first); };
  std::erase_if(times.all, is_unwanted);
  std::erase_if(times.beside.alone, is_unwanted);
  std::erase_if(times.beside.beside, is_unwanted);
  std::erase_if(times.beside.slowdowns, is_unwanted);
  std::erase_if(times.beside.lets_in_s, is_unwanted);
  std::erase_if(times.slowness, is_unwanted);
  AddLayers(times, gpu);
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
    LayerCopies copies = CopiesOf(layers.plan, *gpu, gpu->options().pairs);
    RepeatedRun& run = copies.first();
    LaneDelays delays(run.graph());
    const Result<LayerTimes> times = MeasureLayers(*gpu, seconds, &copies, [&] {
      delays.AddIteration([&run](TaskId id) { return run.Time(id); });
    });
    if (!times.ok()) return times.error();
    layers.iteration_s = run.IterationSeconds();
    AddLayers(times.value(), gpu);
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
