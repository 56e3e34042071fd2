#include "traces/work_replay.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/graph/op.h"
#include "sim/str_cat.h"
#include "traces/add_names.h"
#include "traces/operator_class.h"

namespace twinstep {
namespace {

// An operation of ours that does work of the same kind.
OpCode OpOf(OperatorClass operator_class) {
  switch (operator_class) {
    case OperatorClass::kGemm:
    case OperatorClass::kConvolution:
      return OpCode::kGemmForward;
    case OperatorClass::kAttention:
      return OpCode::kAttentionForward;
    case OperatorClass::kNorm:
      return OpCode::kNormForward;
    case OperatorClass::kSoftmax:
      return OpCode::kSoftmaxForward;
    case OperatorClass::kLoss:
      return OpCode::kCrossEntropyStats;
    case OperatorClass::kEmbedding:
    case OperatorClass::kIndexing:
      return OpCode::kEmbeddingForward;
    case OperatorClass::kCopyOnDevice:
    case OperatorClass::kMemset:
      return OpCode::kCopyOnDevice;
    case OperatorClass::kOptimizer:
      return OpCode::kAdam;
    case OperatorClass::kAllGather:
      return OpCode::kAllGather;
    case OperatorClass::kReduceScatter:
      return OpCode::kReduceScatter;
    default:
      return OpCode::kAdd;
  }
}

// About a month: what the engine adds up stays in 64 bits.
constexpr double kLongest_ps = 3e18;

// Which of our lanes each rank's lanes are: the busiest have one of their own.
class LaneMap {
 public:
  explicit LaneMap(const WorkGraph& work) {
    std::vector<std::unordered_map<std::uint32_t, std::int64_t>> busy_ps(work.ranks.size());
    // A task lasts a month at most (a quarter of the range).
    constexpr std::int64_t kMost_ps = INT64_MAX / 2;
    for (const WorkTask& task : work.tasks) {
      std::int64_t& busy = busy_ps[task.rank][task.lane];
      busy = std::min(busy + task.duration_ps + 1, kMost_ps);
    }
    for (const auto& of_rank : busy_ps) {
      std::vector<std::pair<std::int64_t, std::uint32_t>> order;
      for (const auto& [lane, busy] : of_rank) order.emplace_back(-busy, lane);
      std::sort(order.begin(), order.end());
      std::unordered_map<std::uint32_t, Lane>& lanes = lane_of_.emplace_back();
      for (std::size_t i = 0; i < order.size(); ++i) {
        lanes[order[i].second] = static_cast<Lane>(std::min<std::size_t>(i, kLaneCount - 1));
      }
    }
  }
  Lane operator()(const WorkTask& task) const { return lane_of_[task.rank].at(task.lane); }

 private:
  std::vector<std::unordered_map<std::uint32_t, Lane>> lane_of_;
};

struct Event {
  std::int64_t ready_ps = 0, start_ps = 0, end_ps = 0;
};

// The visible tasks with these times. Ids are positions among the visible tasks.
Trace BuildWorkTrace(const WorkGraph& work, const std::vector<Event>& events,
                     std::int64_t iteration_ps, Trace::Origin origin) {
  Trace trace;
  trace.set_origin(origin);
  trace.set_name(work.name);
  trace.set_iteration_ps(iteration_ps);
  for (const std::string& lane : work.lanes) trace.add_lanes(lane);
  for (const std::string& name : work.operators) trace.add_operators(name);
  AddNames<TaskKind>(kTaskKindCount, trace.mutable_kinds());
  AddNames<Phase>(kPhaseCount, trace.mutable_phases());
  for (const std::uint32_t number : work.ranks) {
    Trace::Rank* rank = trace.add_ranks();
    rank->set_global_rank(number);
    rank->set_class_size(1);
  }
  std::vector<std::uint32_t> id(work.tasks.size(), 0), order;
  for (std::uint32_t i = 0; i < work.tasks.size(); ++i) {
    if (work.tasks[i].hidden) continue;
    id[i] = static_cast<std::uint32_t>(order.size());
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const WorkTask &x = work.tasks[a], &y = work.tasks[b];
    return x.rank != y.rank ? x.rank < y.rank : events[a].start_ps < events[b].start_ps;
  });
  for (const std::uint32_t i : order) {
    const WorkTask& task = work.tasks[i];
    trace.add_task(id[i]);
    trace.add_rank(task.rank);
    trace.add_lane(task.lane);
    trace.add_kind(static_cast<std::uint32_t>(task.kind));
    trace.add_phase(static_cast<std::uint32_t>(task.phase));
    trace.add_op(task.op);
    trace.add_ready_ps(events[i].ready_ps);
    trace.add_start_ps(events[i].start_ps);
    trace.add_end_ps(events[i].end_ps);
    trace.add_micro_batch(kNoTag);
    trace.add_stage(kNoTag);
    trace.add_block(kNoTag);
    trace.add_chunk(kNoTag);
    trace.add_bytes(task.bytes);
  }
  return trace;
}

}  // namespace

TaskGraph ToTaskGraph(const WorkGraph& work) {
  TaskGraph graph;
  for (std::uint32_t rank = 0; rank < work.ranks.size(); ++rank) {
    RankInfo info;
    info.global_rank = rank;
    graph.ranks.push_back(info);
    graph.rank_class.push_back(rank);
  }
  std::vector<OpCode> op_of;
  for (const std::string& name : work.operators) op_of.push_back(OpOf(ClassOfOperator(name)));
  // A message has a task at each end; what else meets is a collective.
  std::vector<std::uint32_t> sends(work.rendezvous.size(), 0), receives(sends), tasks(sends);
  for (const WorkTask& task : work.tasks) {
    if (task.rendezvous == kNone) continue;
    ++tasks[task.rendezvous];
    sends[task.rendezvous] += task.kind == TaskKind::kSend;
    receives[task.rendezvous] += task.kind == TaskKind::kRecv;
  }
  for (const std::uint32_t count : tasks) graph.rendezvous.push_back({kNone, std::max(1u, count)});
  const LaneMap lane(work);
  std::unordered_map<OpShape, ShapeId, OpShapeHash> shapes;
  graph.rank_begin.assign(work.ranks.size() + 1, 0);
  for (const WorkTask& from : work.tasks) {
    Task task;
    task.rank = from.rank;
    task.kind = from.kind;
    task.lane = lane(from);
    task.phase = from.phase;
    OpShape shape;
    shape.op = op_of[from.op];
    switch (from.kind) {
      case TaskKind::kCompute:
      case TaskKind::kHost:
        if (shape.op >= OpCode::kCopyH2D) shape.op = OpCode::kAdd;
        break;
      case TaskKind::kH2D:
        shape.op = OpCode::kCopyH2D;
        break;
      case TaskKind::kD2H:
        shape.op = OpCode::kCopyD2H;
        break;
      default: {
        task.rendezvous = from.rendezvous;
        if (task.rendezvous == kNone) {
          task.rendezvous = static_cast<RendezvousId>(graph.rendezvous.size());
          graph.rendezvous.push_back({kNone, 1});
        }
        const bool is_message = from.rendezvous != kNone && tasks[from.rendezvous] == 2 &&
                                sends[from.rendezvous] == 1 && receives[from.rendezvous] == 1;
        if (is_message) {
          shape.op = from.kind == TaskKind::kSend ? OpCode::kSend : OpCode::kRecv;
        } else {
          task.kind = TaskKind::kCollective;
          if (shape.op < OpCode::kAllReduce) shape.op = OpCode::kAllReduce;
        }
      }
    }
    shape.dims[0] = from.bytes;
    const auto [at, is_new] = shapes.try_emplace(shape, static_cast<ShapeId>(graph.shapes.size()));
    if (is_new) graph.shapes.push_back(shape);
    task.shape = at->second;
    graph.tasks.push_back(task);
    graph.rank_begin[from.rank + 1] = graph.TaskCount();
  }
  // Ranks without a task.
  for (std::size_t i = 1; i < graph.rank_begin.size(); ++i) {
    graph.rank_begin[i] = std::max(graph.rank_begin[i], graph.rank_begin[i - 1]);
  }
  graph.edges = FreezeEdges(graph.TaskCount(), work.edges);
  return graph;
}

Result<WorkReplay> ReplayWork(const WorkGraph& work, std::span<const double> factor) {
  WorkReplay run;
  run.graph = ToTaskGraph(work);
  std::unordered_map<Picoseconds, std::uint32_t> cost_of;
  for (std::size_t i = 0; i < work.tasks.size(); ++i) {
    const WorkTask& task = work.tasks[i];
    const double scaled = static_cast<double>(task.duration_ps) * (factor.empty() ? 1 : factor[i]);
    if (!(static_cast<double>(task.gap_ps) + scaled <= kLongest_ps)) {
      return Error{.message = StrCat("a task lasts more than a month: ", work.operators[task.op],
                                     " of rank ", work.ranks[task.rank])};
    }
    const Picoseconds time = task.gap_ps + std::llround(scaled);
    const auto [at, is_new] =
        cost_of.try_emplace(time, static_cast<std::uint32_t>(run.costs.costs.size()));
    if (is_new) {
      TaskCost cost;
      cost.fixed_ps = time;
      run.costs.costs.push_back(cost);
    }
    run.costs.cost_of_task.push_back(at->second);
  }
  // What tasks did to each other is in their durations.
  run.costs.interference.set_compute_beside_copy(1);
  run.costs.interference.set_compute_beside_collective(1);
  run.costs.interference.set_copy_beside_compute(1);
  run.costs.interference.set_collective_beside_compute(1);
  Result<Replay> replay = MakeFastEngine()->Run(run.graph, run.costs);
  if (!replay.ok()) return replay.error();
  run.replay = std::move(replay).value();
  std::vector<Event> events;
  for (std::size_t i = 0; i < work.tasks.size(); ++i) {
    events.push_back({run.replay.ready_ps[i], run.replay.start_ps[i] + work.tasks[i].gap_ps,
                      run.replay.end_ps[i]});
  }
  run.trace = BuildWorkTrace(work, events, run.replay.makespan_ps, Trace::SIMULATED);
  return run;
}

Trace TracedWork(const WorkGraph& work) {
  std::vector<Event> events;
  for (const WorkTask& task : work.tasks) {
    events.push_back({task.start_ps, task.start_ps, task.start_ps + task.duration_ps});
  }
  return BuildWorkTrace(work, events, work.iteration_ps, Trace::IMPORTED);
}

}  // namespace twinstep
