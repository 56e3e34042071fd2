#include "sim/engine/cost_table.h"

#include <algorithm>
#include <cmath>

#include "sim/engine/check_costs.h"
#include "sim/engine/interference.h"

namespace twinstep {
namespace {

// Sums of rates that differ from a capacity by less than this fill it exactly.
constexpr double kRounding = 1e-12;

struct LinkDemand {
  std::uint32_t link = 0;
  double bytes_per_s = 0;
};

void AddTo(std::vector<LinkDemand>& demands, std::uint32_t link, double bytes_per_s) {
  for (LinkDemand& demand : demands) {
    if (demand.link == link) {
      demand.bytes_per_s += bytes_per_s;
      return;
    }
  }
  demands.push_back({link, bytes_per_s});
}

void RaiseTo(std::vector<LinkDemand>& demands, const LinkDemand& other) {
  for (LinkDemand& demand : demands) {
    if (demand.link == other.link) {
      demand.bytes_per_s = std::max(demand.bytes_per_s, other.bytes_per_s);
      return;
    }
  }
  demands.push_back(other);
}

// Hops of a flow with each link once, multiplicities added up.
std::vector<LinkDemand> Weights(const GraphCosts& costs, const Flow& flow) {
  std::vector<LinkDemand> weights;
  for (std::uint32_t i = 0; i < flow.hop_count; ++i) {
    const RouteHop& hop = costs.hops[flow.hop_begin + i];
    AddTo(weights, hop.link, hop.multiplicity);
  }
  return weights;
}

// Rate of a flow that shares with none.
double AloneRate(const GraphCosts& costs, const Flow& flow,
                 const std::vector<LinkDemand>& weights) {
  double rate = flow.max_bytes_per_s > 0 ? flow.max_bytes_per_s : HUGE_VAL;
  for (const LinkDemand& weight : weights) {
    rate = std::min(rate, costs.links[weight.link].bytes_per_s / weight.bytes_per_s);
  }
  return rate;
}

// By cost, what its flows together ask of each link.
std::vector<std::vector<LinkDemand>> DemandOfCosts(const GraphCosts& costs) {
  std::vector<std::vector<LinkDemand>> demand(costs.costs.size());
  for (std::size_t i = 0; i < costs.costs.size(); ++i) {
    const TaskCost& cost = costs.costs[i];
    for (std::uint32_t f = 0; f < cost.flow_count; ++f) {
      const Flow& flow = costs.flows[cost.flow_begin + f];
      if (flow.bytes == 0) continue;
      const std::vector<LinkDemand> weights = Weights(costs, flow);
      const double rate = AloneRate(costs, flow, weights);
      for (const LinkDemand& weight : weights) {
        AddTo(demand[i], weight.link, weight.bytes_per_s * rate);
      }
    }
  }
  return demand;
}

// By link, whether tasks of several lanes together can ask more than it has.
std::vector<bool> FindSharedLinks(const TaskGraph& graph, const GraphCosts& costs) {
  const std::vector<std::vector<LinkDemand>> demand = DemandOfCosts(costs);
  std::vector<double> total(costs.links.size(), 0);
  std::array<std::vector<LinkDemand>, kLaneCount> lane_peak;  // Of the current rank.
  // The lane (of all ranks) that a cost was last seen on: most costs recur on one lane.
  std::vector<std::uint32_t> seen_on(costs.costs.size(), kNone);
  RankId rank = 0;
  const auto close_rank = [&] {
    for (std::vector<LinkDemand>& peaks : lane_peak) {
      for (const LinkDemand& peak : peaks) total[peak.link] += peak.bytes_per_s;
      peaks.clear();
    }
  };
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    const std::uint32_t cost = costs.cost_of_task[id];
    if (demand[cost].empty()) continue;
    if (task.rank != rank) {
      close_rank();
      rank = task.rank;
    }
    const std::uint32_t lane = rank * kLaneCount + static_cast<std::uint32_t>(task.lane);
    if (seen_on[cost] == lane) continue;
    seen_on[cost] = lane;
    for (const LinkDemand& one : demand[cost]) {
      RaiseTo(lane_peak[static_cast<std::size_t>(task.lane)], one);
    }
  }
  close_rank();
  std::vector<bool> shared(costs.links.size());
  for (std::size_t i = 0; i < shared.size(); ++i) {
    shared[i] = total[i] > costs.links[i].bytes_per_s * (1 + kRounding);
  }
  return shared;
}

std::vector<FixedRate> CapsOf(const std::vector<double>& bytes_per_s) {
  std::vector<FixedRate> caps;
  caps.reserve(bytes_per_s.size());
  for (const double rate : bytes_per_s) caps.push_back(ToFixedRate(std::min(rate, kMaxRate)));
  return caps;
}

CopySpeeds SpeedsOfCopies(const Interference& x, bool h2d) {
  CopySpeeds speeds{};
  for (std::size_t state = 0; state < speeds.size(); ++state) {
    RankWork beside{.compute = (state & 1) != 0, .host = (state & 2) != 0};
    (h2d ? beside.d2h : beside.h2d) = (state & 4) != 0;
    speeds[state] = ToSpeed(1 / CopySlowdown(x, h2d, beside));
  }
  return speeds;
}

void SetSpeeds(const TaskCost& cost, const Interference& x, PreparedCost* prepared) {
  for (std::size_t state = 0; state < prepared->compute_speed.size(); ++state) {
    const RankWork beside{
        .h2d = (state & 1) != 0, .d2h = (state & 4) != 0, .communication = (state & 2) != 0};
    const bool rested = (state & 8) != 0;
    const double speedup = rested ? static_cast<double>(cost.rested_speedup) : 1;
    prepared->compute_speed[state] = ToSpeed(speedup / ComputeSlowdown(cost, x, beside, rested));
  }
  prepared->communication_speed = ToSpeed(1 / CommunicationSlowdown(cost, x, {.compute = true}));
}

// All but what tasks cost.
void SetMachine(const GraphCosts& costs, CostTable* table) {
  table->link_capacity.reserve(costs.links.size());
  for (const Link& link : costs.links) {
    table->link_capacity.push_back(link.bytes_per_s * (1 << kRateBits));
  }
  if (costs.host_copies.gpus > 0) {
    table->hosts = costs.hosts;
    table->host_copies = costs.host_copies;
    table->host_caps = {.h2d = CapsOf(costs.host_copies.h2d_bytes_per_s),
                        .d2h = CapsOf(costs.host_copies.d2h_bytes_per_s)};
  }
  table->h2d_speed = SpeedsOfCopies(costs.interference, /*h2d=*/true);
  table->d2h_speed = SpeedsOfCopies(costs.interference, /*h2d=*/false);
  for (const CopySpeeds* speeds : {&table->h2d_speed, &table->d2h_speed}) {
    for (const std::uint64_t speed : *speeds) {
      table->copies_change_speed = table->copies_change_speed || speed != kFullSpeed;
    }
  }
  table->workers = costs.workers;
  table->clocks = costs.clocks;
  table->handoff_ps = costs.handoff_ps;
  table->meeting_ps = costs.meeting_ps;
}

// What slows what, at low clocks and at high ones.
void NoteSlowdowns(const PreparedCost& prepared, CostTable* table) {
  const auto& speed = prepared.compute_speed;
  for (const std::size_t alone : {0, 8}) {
    for (const std::size_t copies : {1, 4, 5}) {
      if (speed[alone + copies] != speed[alone]) table->copy_slows_compute = true;
    }
  }
  table->collective_slows_compute = table->collective_slows_compute || speed[2] != kFullSpeed;
  table->compute_slows_collective =
      table->compute_slows_collective || prepared.communication_speed != kFullSpeed;
}

// Flows of `cost`: shared ones into the table, the slowest private one into `prepared`. Returns how
// long the slowest takes alone.
Picoseconds AddFlows(const GraphCosts& costs, const TaskCost& cost, const std::vector<bool>& shared,
                     PreparedCost* prepared, CostTable* table) {
  prepared->shared_begin = static_cast<std::uint32_t>(table->flows.size());
  Picoseconds slowest = 0, slowest_private = -1;
  for (std::uint32_t f = 0; f < cost.flow_count; ++f) {
    const Flow& flow = costs.flows[cost.flow_begin + f];
    if (flow.bytes == 0) continue;
    const std::vector<LinkDemand> weights = Weights(costs, flow);
    SharedFlow exact{.work = FlowWork(flow.bytes),
                     .cap = ToFixedRate(AloneRate(costs, flow, weights)),
                     .hop_begin = static_cast<std::uint32_t>(table->hops.size()),
                     .hop_count = 0,
                     .host = table->hosts > 0 ? flow.host : kNone,
                     .host_gpus = flow.host_gpus,
                     .to_gpu = flow.to_gpu};
    const Picoseconds alone = TimeFor(exact.work, exact.cap);
    slowest = std::max(slowest, alone);
    for (const LinkDemand& weight : weights) {
      if (!shared[weight.link]) continue;
      const double demand = weight.bytes_per_s * static_cast<double>(exact.cap);
      table->hops.push_back({weight.link, weight.bytes_per_s, static_cast<Work>(demand)});
    }
    exact.hop_count = static_cast<std::uint32_t>(table->hops.size()) - exact.hop_begin;
    if (exact.hop_count > 0 || exact.host != kNone) {
      table->flows.push_back(exact);
    } else if (alone > slowest_private) {
      slowest_private = alone;
      prepared->private_work = exact.work;
      prepared->private_rate = exact.cap;
    }
  }
  prepared->shared_count = static_cast<std::uint32_t>(table->flows.size()) - prepared->shared_begin;
  return slowest;
}

}  // namespace

Result<CostTable> BuildCostTable(const TaskGraph& graph, const GraphCosts& costs) {
  if (Status status = CheckCosts(costs); !status.ok()) return status.error();
  if (costs.workers.threads > 0 && graph.IsFolded()) {
    return Error{.message =
                     "on worker threads every rank is simulated: the graph must not be folded"};
  }
  const std::vector<bool> shared = FindSharedLinks(graph, costs);
  CostTable table;
  SetMachine(costs, &table);
  table.costs.reserve(costs.costs.size());
  table.alone_ps.reserve(costs.costs.size());
  for (const TaskCost& cost : costs.costs) {
    table.busy_slowdown.push_back(cost.busy_slowdown);
    if (costs.workers.threads > 0 && cost.busy_slowdown != 1) table.busy_threads_slow = true;
    table.kernels_take_turns = table.kernels_take_turns || cost.turn != KernelTurn::kNever;
    PreparedCost prepared;
    prepared.fixed_ps = cost.fixed_ps;
    prepared.turn = cost.turn;
    prepared.lets_in_ps = cost.lets_in_ps > 0 ? cost.lets_in_ps : cost.fixed_ps;
    prepared.segment_begin = cost.segment_begin;
    prepared.segment_count = cost.segment_count;
    SetSpeeds(cost, costs.interference, &prepared);
    NoteSlowdowns(prepared, &table);
    const Picoseconds slowest = AddFlows(costs, cost, shared, &prepared, &table);
    table.costs.push_back(prepared);
    table.alone_ps.push_back(cost.fixed_ps > kMaxTime - slowest ? kMaxTime
                                                                : cost.fixed_ps + slowest);
    table.least_ps.push_back(table.alone_ps.back());
    if (cost.rested_speedup > 1) {
      const auto speedup = static_cast<double>(cost.rested_speedup);
      table.least_ps.back() =
          static_cast<Picoseconds>(static_cast<double>(table.alone_ps.back()) / speedup);
    }
  }
  return table;
}

}  // namespace twinstep
