#include "exec/profile/measure_host_adam.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "exec/profile/layer_plan.h"
#include "exec/profile/measure_copies.h"
#include "exec/profile/merge_graphs.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/repeated_run.h"
#include "exec/profile/statistics.h"
#include "sim/graph/task_graph.h"

namespace twinstep {
namespace {

// Copies run for so many times what the updates take.
constexpr double kCopyMargin = 3;
constexpr int kFewestUpdates = 3;  // The first is not counted.

struct AdamTask {
  const TaskGraph* graph = nullptr;
  TaskId id = kNone;
  std::int64_t elements = 0;
};

// The largest update of not too many elements, of the first plan that has one; else, as where each
// chunk is a large layer, the smallest that there is.
std::optional<AdamTask> FindAdam(const GpuMeasurement& gpu) {
  std::optional<AdamTask> smallest;
  for (const TaskGraph& whole : gpu.wholes()) {
    std::optional<AdamTask> largest;
    for (TaskId id = 0; id < whole.TaskCount(); ++id) {
      const OpShape& shape = whole.shapes[whole.tasks[id].shape];
      if (shape.op != OpCode::kAdam || shape.dims[0] == 0) continue;
      const AdamTask adam{.graph = &whole, .id = id, .elements = shape.dims[0]};
      if (adam.elements > gpu.sizes().adam_elements) {
        if (!smallest || adam.elements < smallest->elements) smallest = adam;
      } else if (!largest || adam.elements > largest->elements) {
        largest = adam;
      }
    }
    if (largest.has_value()) return largest;
  }
  return smallest;
}

}  // namespace

Status MeasureHostAdam(GpuMeasurement* gpu) {
  gpu->BeginPhase("Adam on the host");
  const std::optional<AdamTask> adam = FindAdam(*gpu);
  if (!adam.has_value()) return Unit{};
  // On as many GPUs as there are: they share the host.
  const GpuMeasurement::Layers& layers =
      *std::ranges::max_element(gpu->layers(), {}, &GpuMeasurement::Layers::ranks);
  const auto elements = layers.ranks() * static_cast<double>(adam->elements);
  const int repeats =
      std::clamp(static_cast<int>(static_cast<double>(gpu->sizes().adam_elements) / elements),
                 kFewestUpdates, kProbeRepeats);
  // Layers that compute for longer than all updates take.
  const double least_s = (repeats + 1) * elements / gpu->sizes().least_adam_params_per_s;
  const double once_s = FlopsOfRank(layers.once.graph) / gpu->layers_flops_per_s();
  const Result<LoweredPlan> longer =
      gpu->LowerLayers(gpu->model(), *layers.of,
                       {.micro_batches = FewLayersOptions().micro_batches *
                                         (1 + static_cast<std::int64_t>(least_s / once_s))});
  if (!longer.ok()) return longer.error();
  double adam_s = 0;  // Of one update.
  for (std::size_t i = 0; i < gpu->samples().host_adam_params_per_s.size(); ++i) {
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
      const double seconds = kCopyMargin * repeats * adam_s;
      first = Beside(CopiesBeside(*gpu, layers.ranks(), h2d, d2h, seconds), first);
    }
    Means means;
    const Status done = gpu->Runs().MeasureBeside(
        {.layers = &longer.value(),
         .first = std::move(first),
         .warm_up_s = 0,
         .seconds = gpu->Share(kHostShare, gpu->samples().host_adam_params_per_s.size())},
        &means, &gpu->samples().overhead_bytes);
    if (!done.ok()) return done;
    for (const auto& [primitive, times] : means) {
      const double seconds = Summarize(times).median;
      if (IsHostAdam(primitive)) {
        gpu->samples().host_adam_params_per_s[i] = elements / seconds;
        if (i == 0) adam_s = seconds;
      } else if (IsCopy(primitive.shape.op)) {
        const bool up = primitive.shape.op == OpCode::kCopyH2D;
        GpuSamples::CopyTimes& one_way = up ? gpu->samples().h2d : gpu->samples().d2h;
        GpuSamples::CopyTimes& both = up ? gpu->samples().h2d_both : gpu->samples().d2h_both;
        (h2d && d2h ? both : one_way).beside_host_s = seconds;
      }
    }
    if (!(adam_s > 0)) return Unit{};
  }
  return Unit{};
}

}  // namespace twinstep
