#include "sim/estimate/plan_parts.h"

#include <algorithm>
#include <span>

#include "sim/cost/framework_costs.h"
#include "sim/engine/cost_table.h"
#include "sim/engine/topology.h"
#include "sim/estimate/kuaishou_memory.h"
#include "sim/estimate/kuaishou_primitives.h"
#include "sim/estimate/layer_activations.h"
#include "sim/graph/memory_timeline.h"
#include "sim/lower/lower.h"
#include "sim/plan/node_layout.h"
#include "sim/plan/placement.h"

namespace twinstep {
namespace {

constexpr std::int64_t kLayersOfRank = 2;  // One behind another.

// One first micro-batch, which writes gradients, and one that neither is first nor, where gradients
// are reduced as they come, last.
std::int64_t MicroBatches(const ResolvedPlan& plan) { return plan.dp_overlap ? 3 : 2; }

enum class Pass { kForward, kBackward };

// Paths inside one rank.
class RankPaths {
 public:
  RankPaths(const TaskGraph& graph, const GraphCosts& costs, const CostTable& table,
            const Topology& topology, RankId rank)
      : graph_(graph),
        costs_(costs),
        table_(table),
        topology_(topology),
        begin_(graph.rank_begin[rank]),
        end_(graph.rank_begin[rank + 1]) {}

  TaskId begin() const { return begin_; }
  TaskId end() const { return end_; }
  Picoseconds Alone(TaskId id) const { return table_.least_ps[costs_.cost_of_task[id]]; }

  struct Ends {
    TaskId first = kNone, last = kNone;  // Of the compute lane; kNone where there is no such pass.
  };
  Ends Find(std::uint16_t block, std::uint16_t micro_batch, Pass pass) const {
    Ends ends;
    for (TaskId id = begin_; id < end_; ++id) {
      const Task& task = graph_.tasks[id];
      const bool forward = task.phase == Phase::kForward;
      const bool backward = task.phase == Phase::kBackward || task.phase == Phase::kRecompute;
      if (task.lane != Lane::kCompute || task.block != block || task.micro_batch != micro_batch ||
          !(pass == Pass::kForward ? forward : backward)) {
        continue;
      }
      if (ends.first == kNone) ends.first = id;
      ends.last = id;
    }
    return ends;
  }

  // From start to end of a pass, 0 where there is none.
  Picoseconds Through(const Ends& pass) {
    return pass.first == kNone ? 0 : Longest(pass.first, pass.last);
  }
  // From the end of the pass before to the end of this one.
  Picoseconds Behind(const Ends& before, const Ends& pass) {
    if (before.last == kNone || pass.last == kNone) return 0;
    return Longest(before.last, pass.last) - Alone(before.last);
  }
  // The message that a micro-batch's pass waits for.
  Ends Received(std::uint16_t micro_batch, Lane lane) const {
    for (TaskId id = begin_; id < end_; ++id) {
      const Task& task = graph_.tasks[id];
      if (task.lane == lane && task.micro_batch == micro_batch) return {id, id};
    }
    return {};
  }

 private:
  // Durations of all tasks on the longest path, both ends included. Edges lead to later ids.
  Picoseconds Longest(TaskId from, TaskId to) {
    constexpr Picoseconds kUnreached = -1;
    ready_.assign(to - from + 1, kUnreached);
    ready_[0] = 0;
    const auto reach = [&](TaskId next, Picoseconds at) {
      if (next == kNone || next > to) return;
      ready_[next - from] = std::max(ready_[next - from], at);
    };
    for (TaskId id = from; id < to; ++id) {
      if (ready_[id - from] == kUnreached) continue;
      const Picoseconds done = ready_[id - from] + Alone(id);
      for (const TaskId next : graph_.Successors(id)) reach(next, done);
      reach(topology_.next_in_lane[id], done);
    }
    return std::max<Picoseconds>(ready_[to - from], 0) + Alone(to);
  }

  const TaskGraph& graph_;
  const GraphCosts& costs_;
  const CostTable& table_;
  const Topology& topology_;
  TaskId begin_, end_;
  std::vector<Picoseconds> ready_;
};

void AddPasses(RankPaths& paths, std::uint16_t first_layer, RankParts* out) {
  const auto second_layer = static_cast<std::uint16_t>(first_layer + 1);
  const auto forward = [&](std::uint16_t block) { return paths.Find(block, 1, Pass::kForward); };
  const auto backward = [&](std::uint16_t block, std::uint16_t micro_batch) {
    return paths.Find(block, micro_batch, Pass::kBackward);
  };
  out->forward_ps = paths.Through(forward(first_layer));
  out->next_forward_ps = paths.Behind(forward(first_layer), forward(second_layer));
  out->first_backward_ps = paths.Through(backward(second_layer, 0));
  out->backward_ps = paths.Through(backward(second_layer, 1));
  out->first_next_backward_ps = paths.Behind(backward(second_layer, 0), backward(first_layer, 0));
  out->next_backward_ps = paths.Behind(backward(second_layer, 1), backward(first_layer, 1));
  out->received_forward_ps = paths.Behind(paths.Received(1, Lane::kRecvFwd), forward(first_layer));
  out->received_backward_ps =
      paths.Behind(paths.Received(1, Lane::kRecvBwd), backward(second_layer, 1));
}

void AddEnds(RankPaths& paths, const Model& model, std::uint16_t first_layer, RankParts* out) {
  const auto head = static_cast<std::uint16_t>(model.layers());
  const auto embedding = static_cast<std::uint16_t>(model.layers() + 1);
  const auto last_layer = static_cast<std::uint16_t>(first_layer + kLayersOfRank - 1);
  out->embedding_forward_ps = paths.Through(paths.Find(embedding, 1, Pass::kForward));
  const auto embedding_backward = [&](std::uint16_t micro_batch) {
    return paths.Behind(paths.Find(first_layer, micro_batch, Pass::kBackward),
                        paths.Find(embedding, micro_batch, Pass::kBackward));
  };
  out->first_embedding_backward_ps = embedding_backward(0);
  out->embedding_backward_ps = embedding_backward(1);
  out->head_forward_ps =
      paths.Behind(paths.Find(last_layer, 1, Pass::kForward), paths.Find(head, 1, Pass::kForward));
  out->head_backward_ps = paths.Through(paths.Find(head, 1, Pass::kBackward));
  out->first_head_backward_ps = paths.Through(paths.Find(head, 0, Pass::kBackward));
}

void AddSums(const RankPaths& paths, const TaskGraph& graph, std::uint16_t first_layer,
             RankParts* out) {
  for (TaskId id = paths.begin(); id < paths.end(); ++id) {
    const Task& task = graph.tasks[id];
    const Picoseconds alone = paths.Alone(id);
    const OpCode op = graph.shapes[task.shape].op;
    const bool is_layer = task.chunk == first_layer;
    // The other layers' figures are the same.
    if (task.chunk == first_layer + 1) continue;
    if (task.phase == Phase::kRecompute && is_layer && task.micro_batch == 1) {
      out->recompute_ps += alone;
    } else if (op == OpCode::kSend) {
      (task.lane == Lane::kSendFwd ? out->send_forward_ps : out->send_backward_ps) = alone;
    } else if (op == OpCode::kAdam) {
      (is_layer ? out->layer_adam_ps : out->other_adam_ps) += alone;
    } else if (task.kind == TaskKind::kCollective && task.phase == Phase::kOptimizer) {
      out->clip_ps += alone;
    } else if (task.lane == Lane::kDp && task.chunk != kNoTag) {
      if (task.phase == Phase::kParameterGather) {
        (is_layer ? out->layer_gather_ps : out->other_gather_ps) += alone;
      } else if (op == OpCode::kReduceScatter ||
                 (op == OpCode::kAllReduce && task.phase == Phase::kGradientSync)) {
        (is_layer ? out->layer_reduce_ps : out->other_reduce_ps) += alone;
      }
    }
  }
}

// What equation 7 leaves out, most of any rank.
std::int64_t OtherBytes(const Model& model, const ResolvedPlan& plan, const TaskGraph& graph,
                        const Placement& placement) {
  const Result<double> layer_bytes = LayerActivationBytes(model, plan);
  if (!layer_bytes.ok()) return 0;
  const MemoryTimeline memory = MeasureIssueOrderMemory(graph);
  double most = 0;
  for (std::int64_t r = 0; r < plan.p; ++r) {
    const auto rank = static_cast<std::size_t>(placement.RankOf({.pp = r}));
    const auto& pools = memory[graph.rank_class[rank]];
    const auto peak = static_cast<double>(pools[static_cast<std::size_t>(Pool::kGpu)].peak_bytes);
    most = std::max(most, peak - EstimateMemory(model, plan, r, layer_bytes.value()).gpu_bytes());
  }
  return static_cast<std::int64_t>(most);
}

// Interleaved plans also send from the last rank to the first and back, which the pipeline of one
// stage a rank does not. Such a message costs what one between two other ranks costs that lie as
// near to each other; 0 where there are none.
void AddWrapping(const Placement& placement, std::vector<RankParts>* ranks) {
  const auto count = static_cast<std::int64_t>(ranks->size());
  if (count < 2) return;
  const auto same_node = [&](std::int64_t a, std::int64_t b) {
    return placement.NodeOf(placement.RankOf({.pp = a})) ==
           placement.NodeOf(placement.RankOf({.pp = b}));
  };
  RankParts& first = ranks->front();
  RankParts& last = ranks->back();
  for (std::int64_t r = 0; r + 1 < count; ++r) {
    if (same_node(r, r + 1) != same_node(count - 1, 0)) continue;
    last.send_forward_ps = (*ranks)[static_cast<std::size_t>(r)].send_forward_ps;
    first.send_backward_ps = (*ranks)[static_cast<std::size_t>(r) + 1].send_backward_ps;
    break;
  }
  // The first computation of a forward reads the message. A backward may begin by rebuilding: what
  // of it waits is known from the other ranks, where layers take the same time.
  first.received_forward_ps = first.forward_ps;
  if (last.backward_ps == first.backward_ps && last.next_backward_ps == first.next_backward_ps) {
    last.received_backward_ps = first.received_backward_ps;
  }
}

// What a GPU's copies get while all of its node's copy in both directions.
double SharedCopyRate(const Cluster& cluster, double own_bytes_per_s) {
  const Node& node = cluster.node();
  double rate = own_bytes_per_s;
  const auto limit = [&](double shared, double users) {
    if (shared > 0) rate = std::min(rate, shared / users);
  };
  const NodeLayout layout(cluster);
  limit(node.pcie().duplex_bytes_per_s(), 2);
  limit(node.host().dram_bytes_per_s(), 2 * static_cast<double>(layout.gpus_per_node()));
  if (layout.gpus_per_uplink() > 1) {
    limit(own_bytes_per_s, static_cast<double>(layout.gpus_per_uplink()));
  }
  return rate;
}

// Of computation, weighted by time.
double MeanSensitivity(const GraphCosts& costs) {
  double sum = 0, time = 0;
  for (const std::uint32_t index : costs.cost_of_task) {
    const TaskCost& cost = costs.costs[index];
    if (cost.flow_count > 0) continue;
    sum += static_cast<double>(cost.fixed_ps) * static_cast<double>(cost.interference_sensitivity);
    time += static_cast<double>(cost.fixed_ps);
  }
  return time > 0 ? sum / time : 1;
}

// The rest of the primitives; the pipeline of two layers a rank offloads nothing.
void AddCopies(const Cluster& cluster, const GraphCosts& costs, const Profile* profile,
               KuaishouPrimitives* x) {
  x->d2h_bytes_per_s = SharedCopyRate(cluster, cluster.node().pcie().d2h_bytes_per_s());
  x->h2d_bytes_per_s = SharedCopyRate(cluster, cluster.node().pcie().h2d_bytes_per_s());
  // A copy slows computation down for as long as it lasts; eq 16 counts a block's two copies.
  double factor = costs.interference.compute_beside_copy();
  // A measured factor is that of the operator that suffers most.
  if (profile != nullptr && profile->has_interference()) {
    factor = 1 + MeanSensitivity(costs) * (factor - 1);
  }
  if (x->d2h_bytes_per_s > 0) {
    x->offload_slowdown_s_per_byte = (1 - 1 / factor) / (2 * x->d2h_bytes_per_s);
  }
}

}  // namespace

Result<PlanParts> MeasureParts(const Model& model, const Cluster& cluster, const Profile* profile,
                               const Framework* framework, const ResolvedPlan& plan) {
  Model few = model;
  few.set_layers(kLayersOfRank * plan.p);
  ResolvedPlan small = plan;
  small.v = 1;
  small.l = kLayersOfRank;
  small.m = MicroBatches(plan);
  small.global_batch = small.m * small.b * small.d;
  small.schedule = ONE_F_ONE_B;
  small.offload_ratio = 0;
  const Result<TaskGraph> lowered = Lower(few, cluster, small, {.framework = framework});
  if (!lowered.ok()) return lowered.error();
  const TaskGraph& graph = lowered.value();
  const Result<GraphCosts> costs = ComputeFrameworkCosts(graph, few, cluster, profile, framework);
  if (!costs.ok()) return costs.error();
  const Result<Topology> topology = BuildTopology(graph, costs.value());
  if (!topology.ok()) return topology.error();
  const Result<CostTable> table = BuildCostTable(graph, costs.value());
  if (!table.ok()) return table.error();

  const Placement placement(small, cluster.node().gpus());
  PlanParts parts{.ranks = {},
                  .primitives = MeasurePrimitives(graph, costs.value(), few, small),
                  .other_bytes = OtherBytes(few, small, graph, placement)};
  AddCopies(cluster, costs.value(), profile, &parts.primitives);
  for (std::int64_t r = 0; r < plan.p; ++r) {
    const auto rank = static_cast<std::size_t>(placement.RankOf({.pp = r}));
    RankPaths paths(graph, costs.value(), table.value(), topology.value(), graph.rank_class[rank]);
    const auto first_layer = static_cast<std::uint16_t>(r * kLayersOfRank);
    RankParts times;
    AddPasses(paths, first_layer, &times);
    AddEnds(paths, few, first_layer, &times);
    AddSums(paths, graph, first_layer, &times);
    parts.ranks.push_back(times);
  }
  AddWrapping(placement, &parts.ranks);
  return parts;
}

}  // namespace twinstep
