#include "exec/profile/measure_collectives.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "exec/profile/meetings.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/repeated_run.h"
#include "exec/profile/statistics.h"
#include "sim/graph/task_graph.h"

namespace twinstep {
namespace {

// Beside layers: alternating, as a chunk is gathered and its gradients are reduced.
constexpr std::array kBesideLayers{OpCode::kAllGather, OpCode::kReduceScatter};

OpShape GroupShape(OpCode op, Dtype dtype, std::int64_t bytes) {
  OpShape shape{.op = op, .dtype = dtype};
  shape.dims[0] = bytes;
  return shape;
}

// Of such an operation, as PrimitiveOf has it.
Primitive GroupPrimitive(OpShape shape, std::uint32_t members) {
  if (!Sums(shape.op)) shape.dtype = Dtype::kUint8;
  return {.shape = WorkShape(shape), .group_size = members};
}

// What a plan of other sizes would do, the tables' other entries; and what runs beside layers.
std::vector<OpShape> OtherGroupOperations(const GpuMeasurement& gpu, std::uint32_t members) {
  std::set<Dtype> dtypes;
  for (const TaskGraph& whole : gpu.wholes()) {
    for (const Buffer& buffer : whole.buffers) {
      if (buffer.role == Role::kParameter || buffer.role == Role::kGradient) {
        dtypes.insert(buffer.dtype);
      }
    }
  }
  std::vector<OpShape> shapes;
  const auto add = [&](OpCode op, Dtype dtype, std::int64_t bytes) {
    const OpShape shape = GroupShape(op, dtype, bytes);
    if (!gpu.IsMeasured(GroupPrimitive(shape, members))) shapes.push_back(shape);
  };
  if (gpu.samples().group_sizes.contains(members)) {
    for (const std::int64_t bytes : gpu.sizes().collective_bytes) {
      add(OpCode::kAllGather, Dtype::kBf16, bytes);
      for (const Dtype dtype : dtypes) {
        add(OpCode::kAllReduce, dtype, bytes);
        add(OpCode::kReduceScatter, dtype, bytes);
      }
      if (members == 2) add(OpCode::kSend, Dtype::kBf16, bytes);
    }
  }
  if (std::ranges::any_of(gpu.layers(),
                          [&](const GpuMeasurement::Layers& x) { return x.ranks() == members; })) {
    for (const OpCode op : kBesideLayers) add(op, Dtype::kBf16, gpu.sizes().beside_bytes);
  }
  return shapes;
}

// Of the plans; and, without any, of as many members as layers have ranks.
Meetings MissingMeetings(GpuMeasurement* gpu) {
  Meetings meetings = FindMeetings(
      gpu->wholes(), [gpu](const Primitive& primitive) { return !gpu->IsMeasured(primitive); });
  for (const auto& [members, of_size] : meetings) gpu->samples().group_sizes.insert(members);
  for (const GpuMeasurement::Layers& layers : gpu->layers()) {
    if (layers.ranks() > 1) meetings[layers.ranks()];
  }
  return meetings;
}

}  // namespace

Status MeasureCollectives(GpuMeasurement* gpu) {
  gpu->BeginPhase("collectives and messages");
  const Meetings all = MissingMeetings(gpu);
  for (const auto& [members, meetings] : all) {
    const std::vector<OpShape> others = OtherGroupOperations(*gpu, members);
    std::size_t meeting = 0, other = 0;
    while (meeting < meetings.size() || other < others.size()) {
      ProbeGraph probes(members);
      std::int64_t bytes = 0;
      // At least one, and no more than the memory has room for.
      const auto has_room = [&](std::int64_t more) {
        bytes += 2 * more;
        return bytes == 2 * more || gpu->MostProbeBytes() == 0 || bytes <= gpu->MostProbeBytes();
      };
      for (; meeting < meetings.size(); ++meeting) {
        const TaskGraph& whole = *meetings[meeting].graph;
        const std::vector<TaskId>& tasks = meetings[meeting].tasks;
        if (!has_room(whole.shapes[whole.tasks[tasks.front()].shape].dims[0])) break;
        probes.AddRendezvous(whole, tasks, kProbeRepeats);
      }
      for (; meeting == meetings.size() && other < others.size(); ++other) {
        if (!has_room(others[other].dims[0])) break;
        probes.AddGroupOperation(others[other], kProbeRepeats);
      }
      const Status done = gpu->MeasureAlone(std::move(probes), kGroupsShare / 2);
      if (!done.ok()) return done;
    }
  }
  return Unit{};
}

Status MeasureLayersBesideCollectives(GpuMeasurement* gpu) {
  gpu->BeginPhase("layers beside collectives");
  std::set<Primitive> known;
  for (const auto& [primitive, times] : gpu->samples().primitives.times) {
    if (!times.beside_collective_s.empty() || !times.beside_compute_s.empty()) {
      known.insert(primitive);
    }
  }
  for (const GpuMeasurement::Layers& layers : gpu->layers()) {
    if (layers.ranks() < 2 || !gpu->Lack(layers, &PrimitiveTimes::beside_collective_s)) continue;
    std::vector<OpShape> shapes;
    std::set<Primitive> primitives;
    double seconds = 0;
    for (const OpCode op : kBesideLayers) {
      shapes.push_back(GroupShape(op, Dtype::kBf16, gpu->sizes().beside_bytes));
      const Primitive primitive = GroupPrimitive(shapes.back(), layers.ranks());
      primitives.insert(primitive);
      seconds += Summarize(gpu->TimesOf(primitive).alone_s).median;
    }
    ProbeGraph collectives(layers.ranks());
    collectives.AddGroupOperations(
        shapes, 1 + static_cast<int>(kBesideMargin * layers.iteration_s / seconds));
    Means means;
    const Status done = gpu->Runs().MeasureBeside(
        {.layers = &layers.plan,
         .first = std::move(collectives).Finish(),
         .warm_up_s = gpu->WarmUpSeconds(),
         .seconds = gpu->Share(kBesideCollectivesShare, gpu->layers().size()),
         .is_collectives = true},
        &means, &gpu->samples().overhead_bytes);
    if (!done.ok()) return done;
    for (const auto& [primitive, times] : means) {
      if (known.contains(primitive)) continue;
      if (primitive.group_size == 0) {
        AppendTo(&gpu->TimesOf(primitive).beside_collective_s, times);
      } else if (primitives.contains(primitive)) {
        AppendTo(&gpu->TimesOf(primitive).beside_compute_s, times);
      }
    }
  }
  return Unit{};
}

}  // namespace twinstep
