#include "exec/profile/measure_collectives.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "exec/profile/collective_overlap.h"
#include "exec/profile/meetings.h"
#include "exec/profile/merge_graphs.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/probe_runs.h"
#include "exec/profile/statistics.h"
#include "sim/graph/fused_pairs.h"
#include "sim/graph/task_graph.h"

namespace twinstep {
namespace {

// What arenas may take of a GPU, as in layer_plan.cc.
constexpr double kMemoryShare = 0.9;
// Beside layers, whatever the plans do: a chunk is gathered and its gradients are reduced.
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

// Of the whole tensor.
std::int64_t BytesOf(const Meeting& meeting) {
  const TaskGraph& graph = *meeting.graph;
  return graph.shapes[graph.tasks[meeting.tasks.front()].shape].dims[0];
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

bool IsCollective(OpCode op) {
  return op == OpCode::kAllReduce || op == OpCode::kAllGather || op == OpCode::kReduceScatter;
}

// Collectives of the plans that no layers have beside operators, as many as the GPUs have room for
// beside the layers.
std::vector<Meeting> MissingBesideLayers(const GpuMeasurement& gpu,
                                         const GpuMeasurement::Layers& layers) {
  const auto memory_bytes =
      static_cast<double>(layers.of->cluster->gpu().memory_bytes()) * kMemoryShare;
  double bytes = 0;
  for (const auto& of_rank : layers.plan.arena.arena_bytes) {
    bytes = std::max(bytes, static_cast<double>(of_rank[static_cast<std::size_t>(Pool::kGpu)]));
  }
  const auto& times = gpu.samples().primitives.times;
  const Meetings all = FindMeetings(gpu.wholes(), [&times](const Primitive& primitive) {
    const auto at = times.find(primitive);
    return IsCollective(primitive.shape.op) && at != times.end() && !at->second.alone_s.empty() &&
           at->second.beside_compute_s.empty();
  });
  std::vector<Meeting> missing;
  const auto of_size = all.find(layers.ranks());
  if (of_size == all.end()) return missing;
  for (const Meeting& meeting : of_size->second) {
    bytes += 2 * static_cast<double>(BytesOf(meeting));
    if (memory_bytes > 0 && bytes > memory_bytes) break;
    missing.push_back(meeting);
  }
  return missing;
}

// Of the first rank, in their order.
std::vector<ComputeTime> ComputeTimesOf(const GpuMeasurement& gpu, const LoweredPlan& layers) {
  std::map<Primitive, double> seconds_of;
  for (const auto& [primitive, times] : gpu.samples().primitives.times) {
    seconds_of[primitive] = Summarize(times.alone_s).median;
  }
  const TaskGraph& graph = layers.graph;
  const FusedPairs pairs = gpu.PairsOf(layers);
  std::vector<ComputeTime> times;
  for (TaskId id = graph.rank_begin[0]; id < graph.rank_begin[1]; ++id) {
    if (graph.tasks[id].kind != TaskKind::kCompute) continue;
    const bool is_fused = pairs.Of(id) != Fusion::kAlone;
    times.push_back({.seconds = seconds_of[*PrimitiveOf(graph, id, pairs)],
                     .is_one_with_next = is_fused && pairs.partner[id] > id});
  }
  return times;
}

}  // namespace

Status MeasureCollectives(GpuMeasurement* gpu) {
  gpu->BeginPhase("collectives and messages");
  Meetings all = MissingMeetings(gpu);
  for (auto& [members, meetings] : all) {
    std::vector<OpShape> others = OtherGroupOperations(*gpu, members);
    // Largest first: while these run the host gets ahead, and small ones take what the GPUs take,
    // not what launching does.
    std::ranges::stable_sort(meetings, std::greater(), BytesOf);
    std::ranges::stable_sort(others, std::greater(), [](const OpShape& x) { return x.dims[0]; });
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
        if (!has_room(BytesOf(meetings[meeting]))) break;
        probes.AddRendezvous(*meetings[meeting].graph, meetings[meeting].tasks, kProbeRepeats);
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
  std::map<std::uint32_t, TurnVotes> votes;  // By members.
  for (const GpuMeasurement::Layers& layers : gpu->layers()) {
    if (layers.ranks() < 2) continue;
    const std::vector<Meeting> meetings = MissingBesideLayers(*gpu, layers);
    if (meetings.empty() && !gpu->Lack(layers, &PrimitiveTimes::beside_collective_s)) continue;
    ProbeGraph operations(layers.ranks());
    std::vector<Primitive> primitives;
    for (const Meeting& meeting : meetings) {
      operations.AddRendezvous(*meeting.graph, meeting.tasks, 1);
      primitives.push_back(*PrimitiveOf(*meeting.graph, meeting.tasks.front()));
    }
    for (const OpCode op : kBesideLayers) {
      const OpShape shape = GroupShape(op, Dtype::kBf16, gpu->sizes().beside_bytes);
      operations.AddGroupOperation(shape, 1);
      primitives.push_back(GroupPrimitive(shape, layers.ranks()));
    }
    std::vector<double> operation_s;
    std::map<Primitive, double> alone_s;
    for (const Primitive& primitive : primitives) {
      operation_s.push_back(Summarize(gpu->TimesOf(primitive).alone_s).median);
      alone_s[primitive] = operation_s.back();
    }
    CollectiveOverlap::Times times;
    const Status done = gpu->Runs().MeasureOverlap(
        {.layers = &layers.plan,
         .operations = std::move(operations).Finish(),
         .alone_s = std::move(alone_s),
         .placements = PlaceApart(ComputeTimesOf(*gpu, layers.plan), operation_s),
         .warm_up_s = gpu->WarmUpSeconds(),
         .seconds = gpu->Share(kBesideCollectivesShare, gpu->layers().size())},
        &times, &gpu->samples().overhead_bytes);
    if (!done.ok()) return done;
    for (const Primitive& primitive : primitives) {
      std::vector<double>& beside_s = gpu->TimesOf(primitive).beside_compute_s;
      if (beside_s.empty()) AppendTo(&beside_s, times.beside[primitive]);
    }
    gpu->AddSlowdowns(times.slowdowns);
    gpu->AddLetsIn(times.lets_in_s);
    for (const auto& [primitive, company] : times.company) {
      if (IsCollective(primitive.shape.op)) votes[layers.ranks()].Add(primitive, company.waits);
    }
  }
  for (auto& [primitive, of] : gpu->samples().primitives.times) {
    const auto at = votes.find(primitive.group_size);
    if (at == votes.end() || !IsCollective(primitive.shape.op)) continue;
    of.takes_turns = at->second.TakeTurns();
  }
  return Unit{};
}

}  // namespace twinstep
