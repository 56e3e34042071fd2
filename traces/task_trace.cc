#include "traces/task_trace.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "traces/add_names.h"
#include "traces/shape_text.h"

namespace twinstep {
namespace {

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
  trace->add_rendezvous(task.rendezvous == kNone ? 0 : task.rendezvous + 1);
}

// By shape of the graph, its place in the trace's table of texts.
std::vector<std::uint32_t> AddShapes(const TaskGraph& graph, Trace* trace) {
  std::map<std::string, std::uint32_t> place_of;
  std::vector<std::uint32_t> places;
  for (const OpShape& shape : graph.shapes) {
    const auto [at, is_new] =
        place_of.try_emplace(ShapeText(shape), static_cast<std::uint32_t>(trace->shapes_size()));
    if (is_new) trace->add_shapes(at->first);
    places.push_back(at->second);
  }
  return places;
}

// Edges turned round, in compressed rows, without those to the task before in the same lane: the
// order of a lane says as much.
class Predecessors {
 public:
  explicit Predecessors(const TaskGraph& graph)
      : graph_(graph), before_in_lane_(graph.tasks.size(), kNone), row_(graph.tasks.size() + 1) {
    std::array<TaskId, kLaneCount> last{};
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      if (id == 0 || graph.tasks[id - 1].rank != graph.tasks[id].rank) last.fill(kNone);
      TaskId& before = last[static_cast<std::size_t>(graph.tasks[id].lane)];
      before_in_lane_[id] = before;
      before = id;
    }
    ForEachEdge([this](TaskId, TaskId to) { ++row_[to + 1]; });
    std::partial_sum(row_.begin(), row_.end(), row_.begin());
    tasks_.resize(row_.back());
    std::vector<std::uint32_t> next(row_.begin(), row_.end() - 1);
    ForEachEdge([&](TaskId from, TaskId to) { tasks_[next[to]++] = from; });
  }

  std::span<const TaskId> Of(TaskId id) const {
    return {tasks_.data() + row_[id], row_[id + 1] - row_[id]};
  }

 private:
  template <typename Visit>
  void ForEachEdge(const Visit& visit) const {
    for (TaskId from = 0; from < graph_.TaskCount(); ++from) {
      for (const TaskId to : graph_.Successors(from)) {
        if (before_in_lane_[to] != from) visit(from, to);
      }
    }
  }

  const TaskGraph& graph_;
  std::vector<TaskId> before_in_lane_;
  std::vector<std::uint32_t> row_;
  std::vector<TaskId> tasks_;
};

void AddDependencies(std::span<const TaskId> predecessors, TaskId id, Trace* trace) {
  trace->add_dependency_count(static_cast<std::uint32_t>(predecessors.size()));
  for (const TaskId from : predecessors) {
    trace->add_dependency(static_cast<std::int32_t>(id) - static_cast<std::int32_t>(from));
  }
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
  const std::vector<std::uint32_t> shape_places = AddShapes(graph, &trace);
  const Predecessors predecessors(graph);
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    std::vector<TaskId> order(graph.rank_begin[rank + 1] - graph.rank_begin[rank]);
    std::iota(order.begin(), order.end(), graph.rank_begin[rank]);
    std::stable_sort(order.begin(), order.end(), [&times](TaskId a, TaskId b) {
      return times.start_ps[a] < times.start_ps[b];
    });
    for (const TaskId id : order) {
      AddEvent(graph, times, id, &trace);
      trace.add_shape(shape_places[graph.tasks[id].shape]);
      AddDependencies(predecessors.Of(id), id, &trace);
    }
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
