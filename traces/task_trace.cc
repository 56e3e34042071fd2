#include "traces/task_trace.h"

#include <algorithm>
#include <numeric>

namespace twinstep {
namespace {

template <typename Enum>
void AddNames(int count, google::protobuf::RepeatedPtrField<std::string>* names) {
  for (int i = 0; i < count; ++i) names->Add(Name(static_cast<Enum>(i)));
}

void AddEvent(const TaskGraph& graph, const TaskTimes& times, TaskId id, Trace* trace) {
  const Task& task = graph.tasks[id];
  trace->add_task(id);
  trace->add_rank(task.rank);
  trace->add_lane(static_cast<std::uint32_t>(task.lane));
  trace->add_kind(static_cast<std::uint32_t>(task.kind));
  trace->add_phase(static_cast<std::uint32_t>(task.phase));
  trace->add_op(static_cast<std::uint32_t>(graph.shapes[task.shape].op));
  trace->add_ready_ps(times.ready_ps[id]);
  trace->add_start_ps(times.start_ps[id]);
  trace->add_end_ps(times.end_ps[id]);
  trace->add_micro_batch(task.micro_batch);
  trace->add_stage(task.stage);
  trace->add_block(task.block);
  trace->add_chunk(task.chunk);
  trace->add_bytes(PayloadBytes(graph, id));
}

}  // namespace

std::int64_t PayloadBytes(const TaskGraph& graph, TaskId id) {
  const Task& task = graph.tasks[id];
  if (task.kind == TaskKind::kCompute || task.kind == TaskKind::kHost) return 0;
  return graph.shapes[task.shape].dims[0];
}

Trace BuildTaskTrace(const TaskGraph& graph, const TaskTimes& times, Trace::Origin origin,
                     const std::string& name, std::span<const TraceMemoryCurve> memory) {
  Trace trace;
  trace.set_origin(origin);
  trace.set_name(name);
  trace.set_iteration_ps(times.iteration_ps);
  AddNames<Lane>(kLaneCount, trace.mutable_lanes());
  AddNames<TaskKind>(kTaskKindCount, trace.mutable_kinds());
  AddNames<Phase>(kPhaseCount, trace.mutable_phases());
  AddNames<OpCode>(kOpCodeCount, trace.mutable_operators());
  for (const RankInfo& info : graph.ranks) {
    Trace::Rank* rank = trace.add_ranks();
    rank->set_global_rank(info.global_rank);
    rank->set_tp(info.tp);
    rank->set_cp(info.cp);
    rank->set_dp(info.dp);
    rank->set_pp(info.pp);
    rank->set_class_size(info.class_size);
  }
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    std::vector<TaskId> order(graph.rank_begin[rank + 1] - graph.rank_begin[rank]);
    std::iota(order.begin(), order.end(), graph.rank_begin[rank]);
    std::stable_sort(order.begin(), order.end(), [&times](TaskId a, TaskId b) {
      return times.start_ps[a] < times.start_ps[b];
    });
    for (const TaskId id : order) AddEvent(graph, times, id, &trace);
  }
  for (const TraceMemoryCurve& curve : memory) {
    Trace::MemoryCurve* out = trace.add_memory();
    out->set_rank(curve.rank);
    out->set_pool(static_cast<std::uint32_t>(curve.pool));
    for (const std::int64_t t : curve.time_ps) out->add_time_ps(t);
    for (const std::int64_t bytes : curve.live_bytes) out->add_live_bytes(bytes);
  }
  return trace;
}

}  // namespace twinstep
