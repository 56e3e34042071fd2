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

// Pinned memory takes long to make: so much of it at once, 2 GiB where there is room.
constexpr std::int64_t kMostPinnedFootprints = 4;

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

// Both directions of one GPU.
Status MeasureBothWays(GpuMeasurement* gpu) {
  ProbeGraph both;
  for (const bool h2d : {true, false}) {
    both.AddCopies(h2d, gpu->sizes().beside_bytes, 4 * kProbeRepeats, gpu->CopyFootprintBytes());
  }
  Means both_ways;
  const Status done =
      gpu->Runs().MeasureAlone(std::move(both), gpu->Share(kCopiesShare / 4, 1), &both_ways);
  if (!done.ok()) return done;
  double both_s = 0;
  for (const auto& [primitive, times] : both_ways) {
    AppendTo(&gpu->TimesOf(primitive).both_ways_s, times);
    both_s += Summarize(times).median / 2;
  }
  gpu->samples().duplex_bytes_per_s = 2 * static_cast<double>(gpu->sizes().beside_bytes) / both_s;
  return Unit{};
}

// GPUs 0 to up - 1 H2D and 0 to down - 1 D2H, but where both are 1, GPU 1 D2H. A state whose copies
// never ran all at once is left out.
Status MeasureHostCopies(GpuMeasurement* gpu, std::uint32_t up, std::uint32_t down,
                         double seconds) {
  const std::int64_t bytes = gpu->sizes().beside_bytes;
  const std::uint32_t first_down = up == 1 && down == 1 ? 1 : 0;
  ProbeGraph probes(std::max(up, first_down + down));
  for (std::uint32_t rank = 0; rank < up; ++rank) {
    probes.AddCopiesOf(rank, /*h2d=*/true, bytes, 4 * kProbeRepeats, gpu->CopyFootprintBytes());
  }
  for (std::uint32_t rank = 0; rank < down; ++rank) {
    probes.AddCopiesOf(first_down + rank, /*h2d=*/false, bytes, 4 * kProbeRepeats,
                       gpu->CopyFootprintBytes());
  }
  Means means;
  const Status done = gpu->Runs().MeasureTogether(std::move(probes), seconds, &means);
  if (!done.ok()) return done;
  const HostCopyTimes times{.up = up,
                            .down = down,
                            .bytes = bytes,
                            .h2d_s = MedianOf(means, CopyPrimitive(/*h2d=*/true, bytes)),
                            .d2h_s = MedianOf(means, CopyPrimitive(/*h2d=*/false, bytes))};
  if ((up > 0 && times.h2d_s == 0) || (down > 0 && times.d2h_s == 0)) return Unit{};
  gpu->samples().host_copies.push_back(times);
  return Unit{};
}

// None, one or all GPUs each way.
Status MeasureCopiesOfAll(GpuMeasurement* gpu) {
  const auto all = static_cast<std::uint32_t>(gpu->samples().gpus);
  constexpr std::size_t kStates = 8;
  for (const std::uint32_t up : {0u, 1u, all}) {
    for (const std::uint32_t down : {0u, 1u, all}) {
      if (up + down == 0) continue;
      const Status done = MeasureHostCopies(gpu, up, down, gpu->Share(kCopiesShare / 2, kStates));
      if (!done.ok()) return done;
    }
  }
  return Unit{};
}

}  // namespace

Status MeasureCopies(GpuMeasurement* gpu) {
  gpu->BeginPhase("copies");
  const std::int64_t footprint = gpu->CopyFootprintBytes();
  const std::int64_t most_pinned = kMostPinnedFootprints * footprint;
  for (const bool h2d : {true, false}) {
    ProbeGraph probes;
    std::int64_t pinned = 0;
    for (const std::int64_t bytes : CopySizes(*gpu, h2d)) {
      const std::int64_t more = ProbeGraph::PinnedBytes(bytes, kProbeRepeats, footprint);
      if (pinned > 0 && pinned + more > most_pinned) {
        const Status done =
            gpu->MeasureAlone(std::exchange(probes, ProbeGraph()), kCopiesShare / 4);
        if (!done.ok()) return done;
        pinned = 0;
      }
      pinned += more;
      probes.AddCopies(h2d, bytes, kProbeRepeats, footprint);
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
  const Status done = MeasureBothWays(gpu);
  if (!done.ok()) return done;
  for (const bool h2d : {true, false}) {
    const PrimitiveTimes& times = gpu->TimesOf(CopyPrimitive(h2d, gpu->sizes().beside_bytes));
    (h2d ? samples.h2d : samples.d2h).alone_s = Summarize(times.alone_s).median;
    (h2d ? samples.h2d_both : samples.d2h_both).alone_s = Summarize(times.both_ways_s).median;
  }
  samples.gpus = gpu->gpus();
  if (samples.gpus == 1) return Unit{};
  return MeasureCopiesOfAll(gpu);
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
                       CopiesIn(seconds, rate, gpu.sizes().beside_bytes), gpu.CopyFootprintBytes());
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
          AppendTo(&(gpu->TimesOf(primitive).*member),
                   gpu->OnAllGpus(primitive, layers.ranks(), times));
          continue;
        }
        const bool up = primitive.shape.op == OpCode::kCopyH2D;
        const double median = Summarize(times).median;
        GpuSamples& samples = gpu->samples();
        GpuSamples::CopyTimes& both = up ? samples.h2d_both : samples.d2h_both;
        GpuSamples::CopyTimes& copies = h2d && d2h ? both : up ? samples.h2d : samples.d2h;
        // Of the layers that most GPUs have.
        if (layers.ranks() < copies.gpus_beside_compute) continue;
        copies.beside_compute_s = median;
        copies.gpus_beside_compute = layers.ranks();
      }
    }
  }
  return Unit{};
}

}  // namespace twinstep
