#include "exec/profile/measure_copies.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/repeated_run.h"
#include "exec/profile/statistics.h"

namespace twinstep {
namespace {

// Pinned memory takes long to make: so much of it at once.
constexpr std::int64_t kMostPinnedBytes = std::int64_t{2} << 30;

Primitive CopyPrimitive(bool h2d, std::int64_t bytes) {
  OpShape shape{.op = h2d ? OpCode::kCopyH2D : OpCode::kCopyD2H, .dtype = Dtype::kUint8};
  shape.dims[0] = bytes;
  return {.shape = WorkShape(shape)};
}

int CopiesIn(double seconds, double bytes_per_s, std::int64_t bytes) {
  return 1 + static_cast<int>(seconds * bytes_per_s / static_cast<double>(bytes));
}

// By direction.
std::set<std::int64_t> CopySizes(const GpuMeasurement& gpu, bool h2d) {
  std::set<std::int64_t> sizes(gpu.sizes().copy_bytes.begin(), gpu.sizes().copy_bytes.end());
  sizes.insert(gpu.sizes().beside_bytes);
  for (const TaskGraph& whole : gpu.wholes()) {
    for (const Task& task : whole.tasks) {
      const OpShape& shape = whole.shapes[task.shape];
      if (shape.op == (h2d ? OpCode::kCopyH2D : OpCode::kCopyD2H)) sizes.insert(shape.dims[0]);
    }
  }
  return sizes;
}

// The engines take one rate of both directions together.
Status MeasureBothWays(GpuMeasurement* gpu, std::uint32_t gpus, double* bytes_per_s) {
  ProbeGraph both(gpus);
  for (const bool h2d : {true, false}) {
    both.AddCopies(h2d, gpu->sizes().beside_bytes, 4 * kProbeRepeats);
  }
  Means both_ways;
  const Status done =
      gpu->Runs().MeasureAlone(std::move(both), gpu->Share(kCopiesShare / 4, 1), &both_ways);
  if (!done.ok()) return done;
  double both_s = 0;
  for (const auto& [primitive, times] : both_ways) {
    if (gpus == 1) AppendTo(&gpu->TimesOf(primitive).both_ways_s, times);
    both_s += Summarize(times).median / 2;
  }
  *bytes_per_s = 2 * gpus * static_cast<double>(gpu->sizes().beside_bytes) / both_s;
  return Unit{};
}

}  // namespace

Status MeasureCopies(GpuMeasurement* gpu) {
  gpu->BeginPhase("copies");
  for (const bool h2d : {true, false}) {
    ProbeGraph probes;
    std::int64_t pinned = 0;
    for (const std::int64_t bytes : CopySizes(*gpu, h2d)) {
      if (pinned > 0 && pinned + bytes > kMostPinnedBytes) {
        const Status done =
            gpu->MeasureAlone(std::exchange(probes, ProbeGraph()), kCopiesShare / 4);
        if (!done.ok()) return done;
        pinned = 0;
      }
      pinned += bytes;
      probes.AddCopies(h2d, bytes, kProbeRepeats);
    }
    const Status done = gpu->MeasureAlone(std::move(probes), kCopiesShare / 4);
    if (!done.ok()) return done;
  }
  GpuSamples& samples = gpu->samples();
  const auto seconds = [&](bool h2d, std::int64_t bytes) {
    return Summarize(gpu->TimesOf(CopyPrimitive(h2d, bytes)).alone_s).median;
  };
  const std::int64_t smallest = gpu->sizes().copy_bytes.front();
  const std::int64_t largest = gpu->sizes().copy_bytes.back();
  samples.h2d_bytes_per_s = static_cast<double>(largest) / seconds(true, largest);
  samples.d2h_bytes_per_s = static_cast<double>(largest) / seconds(false, largest);
  samples.copy_latency_s = seconds(true, smallest);
  const Status done = MeasureBothWays(gpu, /*gpus=*/1, &samples.duplex_bytes_per_s);
  if (!done.ok()) return done;
  for (const bool h2d : {true, false}) {
    const PrimitiveTimes& times = gpu->TimesOf(CopyPrimitive(h2d, gpu->sizes().beside_bytes));
    (h2d ? samples.h2d : samples.d2h).alone_s = Summarize(times.alone_s).median;
    (h2d ? samples.h2d_both : samples.d2h_both).alone_s = Summarize(times.both_ways_s).median;
  }
  // What all GPUs' copies get from the host's memory together.
  for (const GpuPlan& plan : gpu->plans()) samples.gpus = std::max(samples.gpus, plan.plan->gpus);
  if (samples.gpus == 1) return Unit{};
  return MeasureBothWays(gpu, static_cast<std::uint32_t>(samples.gpus),
                         &samples.all_gpus_copies_bytes_per_s);
}

TaskGraph CopiesBeside(const GpuMeasurement& gpu, std::uint32_t ranks, bool h2d, bool d2h,
                       double seconds) {
  const double rate = h2d && d2h ? gpu.samples().duplex_bytes_per_s / 2
                      : h2d      ? gpu.samples().h2d_bytes_per_s
                                 : gpu.samples().d2h_bytes_per_s;
  ProbeGraph copies(ranks);
  for (const bool up : {true, false}) {
    if (up ? h2d : d2h) {
      copies.AddCopies(up, gpu.sizes().beside_bytes,
                       CopiesIn(seconds, rate, gpu.sizes().beside_bytes));
    }
  }
  return std::move(copies).Finish();
}

Status MeasureLayersBesideCopies(GpuMeasurement* gpu) {
  gpu->BeginPhase("layers beside copies");
  for (const GpuMeasurement::Layers& layers : gpu->layers()) {
    if (!gpu->Lack(layers, &PrimitiveTimes::beside_copies_s)) continue;
    for (const auto& [h2d, d2h, member] :
         {std::tuple<bool, bool, TimesMember>{true, false, &PrimitiveTimes::beside_h2d_s},
          {false, true, &PrimitiveTimes::beside_d2h_s},
          {true, true, &PrimitiveTimes::beside_copies_s}}) {
      Means means;
      // Hardly longer than the layers: the device must not cool down meanwhile.
      const Status done = gpu->Runs().MeasureBeside(
          {.layers = &layers.plan,
           .first =
               CopiesBeside(*gpu, layers.ranks(), h2d, d2h, kBesideMargin * layers.iteration_s),
           .warm_up_s = gpu->WarmUpSeconds(),
           .seconds = gpu->Share(kBesideCopiesShare, 3 * gpu->layers().size())},
          &means, &gpu->samples().overhead_bytes);
      if (!done.ok()) return done;
      for (const auto& [primitive, times] : means) {
        if (primitive.group_size > 0) continue;
        if (!IsCopy(primitive.shape.op)) {
          AppendTo(&(gpu->TimesOf(primitive).*member), times);
          continue;
        }
        const bool up = primitive.shape.op == OpCode::kCopyH2D;
        const double median = Summarize(times).median;
        if (h2d && d2h) {
          (up ? gpu->samples().h2d_both : gpu->samples().d2h_both).beside_compute_s = median;
        } else {
          (up ? gpu->samples().h2d : gpu->samples().d2h).beside_compute_s = median;
        }
      }
    }
  }
  return Unit{};
}

}  // namespace twinstep
