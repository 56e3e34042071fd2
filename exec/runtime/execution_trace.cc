#include "exec/runtime/execution_trace.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "sim/graph/memory_timeline.h"

namespace twinstep {
namespace {

constexpr std::size_t kMemoryPoints = 500;

template <typename Enum>
void AddNames(int count, google::protobuf::RepeatedPtrField<std::string>* names) {
  for (int i = 0; i < count; ++i) names->Add(Name(static_cast<Enum>(i)));
}

void AddEvent(const TaskGraph& graph, const Execution& execution, TaskId id, Trace* trace) {
  const Task& task = graph.tasks[id];
  const OpShape& shape = graph.shapes[task.shape];
  const bool moves = task.kind != TaskKind::kCompute && task.kind != TaskKind::kHost;
  trace->add_task(id);
  trace->add_rank(task.rank);
  trace->add_lane(static_cast<std::uint32_t>(task.lane));
  trace->add_kind(static_cast<std::uint32_t>(task.kind));
  trace->add_phase(static_cast<std::uint32_t>(task.phase));
  trace->add_op(static_cast<std::uint32_t>(shape.op));
  trace->add_ready_ps(execution.ready_ps[id]);
  trace->add_start_ps(execution.start_ps[id]);
  trace->add_end_ps(execution.end_ps[id]);
  trace->add_micro_batch(task.micro_batch);
  trace->add_stage(task.stage);
  trace->add_block(task.block);
  trace->add_chunk(task.chunk);
  trace->add_bytes(moves ? shape.dims[0] : 0);
}

void AddMemory(const TaskGraph& graph, const Execution& execution, Trace* trace) {
  const Result<MemoryTimeline> memory =
      MeasureMemory(graph, execution.start_ps, execution.end_ps, {.max_points = kMemoryPoints});
  if (!memory.ok()) return;  // Lengths agree by construction.
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      const PoolMemory& use = memory.value()[rank][pool];
      if (use.peak_bytes == 0) continue;
      Trace::MemoryCurve* curve = trace->add_memory();
      curve->set_rank(rank);
      curve->set_pool(static_cast<std::uint32_t>(pool));
      for (const MemoryPoint& point : use.curve) {
        curve->add_time_ps(point.time_ps);
        curve->add_live_bytes(point.total_bytes);
      }
    }
  }
}

}  // namespace

Trace BuildExecutionTrace(const TaskGraph& graph, const Execution& execution,
                          const std::string& name) {
  Trace trace;
  trace.set_origin(Trace::EXECUTED);
  trace.set_name(name);
  trace.set_iteration_ps(execution.iteration_ps);
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
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    std::vector<TaskId> order(graph.rank_begin[rank + 1] - graph.rank_begin[rank]);
    std::iota(order.begin(), order.end(), graph.rank_begin[rank]);
    std::stable_sort(order.begin(), order.end(), [&execution](TaskId a, TaskId b) {
      return execution.start_ps[a] < execution.start_ps[b];
    });
    for (const TaskId id : order) AddEvent(graph, execution, id, &trace);
  }
  AddMemory(graph, execution, &trace);
  return trace;
}

}  // namespace twinstep
