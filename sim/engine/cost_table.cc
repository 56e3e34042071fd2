#include "sim/engine/cost_table.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "hw_specs/interference_factors.h"
#include "sim/engine/interference.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Sums of rates that differ from a capacity by less than this fill it exactly.
constexpr double kRounding = 1e-12;
constexpr std::uint32_t kMostHostGpus = HostCopyRates::kMostGpus;

bool IsFactor(double factor) { return factor == 0 || (factor > 1e-6 && factor < 1e6); }

Error BadCost(const std::string& message) { return Error{.message = message}; }

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

Status CheckHostCopies(const GraphCosts& costs) {
  const HostCopyRates& rates = costs.host_copies;
  if (rates.gpus > kMostHostGpus) {
    return BadCost(StrCat("host_copies: ", rates.gpus, " gpus are more than ", kMostHostGpus));
  }
  const std::size_t states = std::size_t{rates.gpus + 1} * (rates.gpus + 1);
  for (const auto& [name, list] : {std::pair{"h2d_bytes_per_s", &rates.h2d_bytes_per_s},
                                   std::pair{"d2h_bytes_per_s", &rates.d2h_bytes_per_s}}) {
    if (rates.gpus > 0 && list->size() != states) {
      return BadCost(StrCat("host_copies: ", name, " has ", list->size(), " of ", states,
                            " states of ", rates.gpus, " GPUs"));
    }
    for (const double rate : *list) {
      if (!(rate > 0)) return BadCost(StrCat("host_copies: ", name, " ", rate));
    }
  }
  return Unit{};
}

Status CheckFlow(const GraphCosts& costs, std::size_t index) {
  const Flow& flow = costs.flows[index];
  const std::string name = StrCat("flow ", index);
  if (flow.host != kNone && flow.host >= costs.hosts) {
    return BadCost(StrCat(name, ": host ", flow.host, " of ", costs.hosts));
  }
  if (flow.host_gpus == 0 || flow.host_gpus > kMostHostGpus) {
    return BadCost(
        StrCat(name, ": host_gpus ", flow.host_gpus, " is not in [1, ", kMostHostGpus, "]"));
  }
  if (flow.bytes < 0) return BadCost(StrCat(name, ": ", flow.bytes, " bytes"));
  if (!(flow.max_bytes_per_s >= 0)) {
    return BadCost(StrCat(name, ": max_bytes_per_s ", flow.max_bytes_per_s));
  }
  if (flow.hop_begin > costs.hops.size() || flow.hop_count > costs.hops.size() - flow.hop_begin) {
    return BadCost(
        StrCat(name, ": hops ", flow.hop_begin, " + ", flow.hop_count, " of ", costs.hops.size()));
  }
  double rate = flow.max_bytes_per_s > 0 ? flow.max_bytes_per_s : HUGE_VAL;
  for (std::uint32_t i = 0; i < flow.hop_count; ++i) {
    const RouteHop& hop = costs.hops[flow.hop_begin + i];
    if (hop.link >= costs.links.size()) {
      return BadCost(StrCat(name, ": link ", hop.link, " of ", costs.links.size()));
    }
    if (!(hop.multiplicity > 0) || !std::isfinite(hop.multiplicity)) {
      return BadCost(StrCat(name, ": multiplicity ", hop.multiplicity, " on link ", hop.link));
    }
    rate = std::min(rate, costs.links[hop.link].bytes_per_s / hop.multiplicity);
  }
  if (flow.bytes > 0 && !(rate <= kMaxRate)) {
    return BadCost(StrCat(name, ": its rate, ", rate, " bytes/s, is above ", kMaxRate));
  }
  return Unit{};
}

// A fused computation is exactly its members.
Status CheckSegments(const GraphCosts& costs, std::size_t index) {
  const TaskCost& cost = costs.costs[index];
  if (cost.segment_count == 0) return Unit{};
  if (cost.segment_begin > costs.segments.size() ||
      cost.segment_count > costs.segments.size() - cost.segment_begin) {
    return BadCost(StrCat("cost ", index, ": segments ", cost.segment_begin, " + ",
                          cost.segment_count, " of ", costs.segments.size()));
  }
  Picoseconds sum = 0;
  for (std::uint32_t i = 0; i < cost.segment_count; ++i) {
    const std::uint32_t segment = costs.segments[cost.segment_begin + i];
    if (segment >= costs.costs.size() || costs.costs[segment].segment_count > 0 ||
        costs.costs[segment].flow_count > 0) {
      return BadCost(
          StrCat("cost ", index, ": segment ", i, " is no cost of a single computation"));
    }
    sum += std::min(costs.costs[segment].fixed_ps, kMaxTime - sum);
  }
  if (sum != cost.fixed_ps || cost.flow_count > 0) {
    return BadCost(StrCat("cost ", index, ": fixed_ps ", cost.fixed_ps, " and ", cost.flow_count,
                          " flows where its segments take ", sum, " ps"));
  }
  return Unit{};
}

Status CheckSlowdowns(const TaskCost& cost, std::size_t index) {
  if (cost.rested_speedup == 0) return BadCost(StrCat("cost ", index, ": rested_speedup is 0"));
  const std::pair<const char*, float> slowdowns[] = {
      {"beside_h2d", cost.beside_h2d},
      {"beside_d2h", cost.beside_d2h},
      {"beside_both", cost.beside_both},
      {"beside_collective", cost.beside_collective},
      {"beside_compute", cost.beside_compute},
      {"rested_speedup", cost.rested_speedup},
      {"rested_beside_h2d", cost.rested_beside_h2d},
      {"rested_beside_d2h", cost.rested_beside_d2h},
      {"rested_beside_both", cost.rested_beside_both}};
  for (const auto& [name, slowdown] : slowdowns) {
    if (IsFactor(static_cast<double>(slowdown))) continue;
    return BadCost(StrCat("cost ", index, ": ", name, " ", slowdown, " is not in (1e-6, 1e6)"));
  }
  return Unit{};
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

// What stands for many ranks or many tasks has no place in a queue of jobs.
Status CheckWorkers(const GraphCosts& costs) {
  const WorkerPool& workers = costs.workers;
  if (workers.threads == 0) return Unit{};
  for (const auto& [name, time] :
       {std::pair{"dispatch_ps", workers.dispatch_ps}, std::pair{"wake_ps", workers.wake_ps},
        std::pair{"look_ps", workers.look_ps}, std::pair{"handoff_ps", workers.handoff_ps}}) {
    if (time < 0 || time > kMaxTime) return BadCost(StrCat("workers.", name, " ", time));
  }
  for (std::size_t i = 0; i < costs.costs.size(); ++i) {
    const TaskCost& cost = costs.costs[i];
    if (!IsFactor(cost.busy_slowdown) || cost.busy_slowdown == 0) {
      return BadCost(
          StrCat("cost ", i, ": busy_slowdown ", cost.busy_slowdown, " is not in (1e-6, 1e6)"));
    }
    if (cost.segment_count > 0) {
      return BadCost(StrCat("cost ", i, ": fused computations cannot run on worker threads"));
    }
  }
  for (std::size_t i = 0; i < costs.costs.size(); ++i) {
    if (costs.costs[i].turn != KernelTurn::kNever) {
      return BadCost(StrCat("cost ", i, ": kernels that take turns cannot run on worker threads"));
    }
  }
  if (costs.handoff_ps > 0 || costs.meeting_ps > 0) {
    return BadCost("worker threads have delays of their own: handoff_ps and meeting_ps must be 0");
  }
  for (const auto& [name, factor] : InterferenceFactors(costs.interference)) {
    if (factor != 0 && factor != 1) {
      return BadCost("worker threads have no interference factors, but busy_slowdown");
    }
  }
  return Unit{};
}

}  // namespace

Status CheckCosts(const GraphCosts& costs) {
  for (std::size_t i = 0; i < costs.links.size(); ++i) {
    const double rate = costs.links[i].bytes_per_s;
    if (!(rate > 0) || !(rate <= kMaxRate)) {
      return BadCost(StrCat("link ", i, ": bytes_per_s ", rate, " is not in (0, ", kMaxRate, "]"));
    }
  }
  if (Status status = CheckHostCopies(costs); !status.ok()) return status;
  for (std::size_t i = 0; i < costs.flows.size(); ++i) {
    if (Status status = CheckFlow(costs, i); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < costs.costs.size(); ++i) {
    const TaskCost& cost = costs.costs[i];
    if (cost.fixed_ps < 0 || cost.fixed_ps > kMaxTime) {
      return BadCost(StrCat("cost ", i, ": fixed_ps ", cost.fixed_ps));
    }
    if (cost.flow_begin > costs.flows.size() ||
        cost.flow_count > costs.flows.size() - cost.flow_begin) {
      return BadCost(StrCat("cost ", i, ": flows ", cost.flow_begin, " + ", cost.flow_count, " of ",
                            costs.flows.size()));
    }
    if (!(cost.interference_sensitivity >= 0 && cost.interference_sensitivity <= 1)) {
      return BadCost(StrCat("cost ", i, ": interference_sensitivity ",
                            cost.interference_sensitivity, " is not in [0, 1]"));
    }
    if (cost.lets_in_ps < 0 || cost.lets_in_ps > cost.fixed_ps) {
      return BadCost(StrCat("cost ", i, ": lets_in_ps ", cost.lets_in_ps,
                            " is not in [0, fixed_ps ", cost.fixed_ps, "]"));
    }
    if (Status status = CheckSlowdowns(cost, i); !status.ok()) return status;
  }
  // Members' times are in range now.
  for (std::size_t i = 0; i < costs.costs.size(); ++i) {
    if (Status status = CheckSegments(costs, i); !status.ok()) return status;
  }
  for (const auto& [name, factor] : InterferenceFactors(costs.interference)) {
    if (!IsFactor(factor)) {
      return BadCost(StrCat("interference.", name, " ", factor, " is not in (1e-6, 1e6)"));
    }
  }
  const ClockBoost& clocks = costs.clocks;
  if (clocks.boost_ps < 0 || clocks.boost_ps > kMaxTime || !IsFactor(clocks.boost_per_rest)) {
    return BadCost(StrCat("clocks: boost_ps ", clocks.boost_ps, " is not in [0, ", kMaxTime,
                          "], or boost_per_rest ", clocks.boost_per_rest,
                          " is not in (1e-6, 1e6)"));
  }
  for (const auto& [name, time] :
       {std::pair{"handoff_ps", costs.handoff_ps}, std::pair{"meeting_ps", costs.meeting_ps}}) {
    if (time < 0 || time > kMaxTime) return BadCost(StrCat(name, " ", time));
  }
  return CheckWorkers(costs);
}

Result<CostTable> BuildCostTable(const TaskGraph& graph, const GraphCosts& costs) {
  if (Status status = CheckCosts(costs); !status.ok()) return status.error();
  if (costs.workers.threads > 0 && graph.IsFolded()) {
    return BadCost("on worker threads every rank is simulated: the graph must not be folded");
  }
  const std::vector<bool> shared = FindSharedLinks(graph, costs);

  CostTable table;
  table.link_capacity.reserve(costs.links.size());
  for (const Link& link : costs.links) {
    table.link_capacity.push_back(link.bytes_per_s * (1 << kRateBits));
  }
  if (costs.host_copies.gpus > 0) {
    table.hosts = costs.hosts;
    table.host_copies = costs.host_copies;
    table.host_caps = {.h2d = CapsOf(costs.host_copies.h2d_bytes_per_s),
                       .d2h = CapsOf(costs.host_copies.d2h_bytes_per_s)};
  }
  const Interference& x = costs.interference;
  table.h2d_speed = SpeedsOfCopies(x, /*h2d=*/true);
  table.d2h_speed = SpeedsOfCopies(x, /*h2d=*/false);
  for (const CopySpeeds* speeds : {&table.h2d_speed, &table.d2h_speed}) {
    for (const std::uint64_t speed : *speeds) {
      table.copies_change_speed = table.copies_change_speed || speed != kFullSpeed;
    }
  }

  table.workers = costs.workers;
  table.clocks = costs.clocks;
  table.handoff_ps = costs.handoff_ps;
  table.meeting_ps = costs.meeting_ps;

  table.costs.reserve(costs.costs.size());
  table.alone_ps.reserve(costs.costs.size());
  for (const TaskCost& cost : costs.costs) {
    PreparedCost prepared;
    prepared.fixed_ps = cost.fixed_ps;
    table.busy_slowdown.push_back(cost.busy_slowdown);
    if (costs.workers.threads > 0 && cost.busy_slowdown != 1) table.busy_threads_slow = true;
    prepared.turn = cost.turn;
    prepared.lets_in_ps = cost.lets_in_ps > 0 ? cost.lets_in_ps : cost.fixed_ps;
    table.kernels_take_turns = table.kernels_take_turns || cost.turn != KernelTurn::kNever;
    prepared.segment_begin = cost.segment_begin;
    prepared.segment_count = cost.segment_count;
    SetSpeeds(cost, x, &prepared);
    const auto& speed = prepared.compute_speed;
    // At low clocks and at high ones.
    for (const std::size_t alone : {0, 8}) {
      for (const std::size_t copies : {1, 4, 5}) {
        if (speed[alone + copies] != speed[alone]) table.copy_slows_compute = true;
      }
    }
    table.collective_slows_compute = table.collective_slows_compute || speed[2] != kFullSpeed;
    table.compute_slows_collective =
        table.compute_slows_collective || prepared.communication_speed != kFullSpeed;
    prepared.shared_begin = static_cast<std::uint32_t>(table.flows.size());
    Picoseconds slowest = 0;
    Picoseconds slowest_private = -1;
    for (std::uint32_t f = 0; f < cost.flow_count; ++f) {
      const Flow& flow = costs.flows[cost.flow_begin + f];
      if (flow.bytes == 0) continue;
      const std::vector<LinkDemand> weights = Weights(costs, flow);
      const SharedFlow exact{.work = FlowWork(flow.bytes),
                             .cap = ToFixedRate(AloneRate(costs, flow, weights)),
                             .hop_begin = static_cast<std::uint32_t>(table.hops.size()),
                             .hop_count = 0,
                             .host = table.hosts > 0 ? flow.host : kNone,
                             .host_gpus = flow.host_gpus,
                             .to_gpu = flow.to_gpu};
      const Picoseconds alone = TimeFor(exact.work, exact.cap);
      slowest = std::max(slowest, alone);
      for (const LinkDemand& weight : weights) {
        if (!shared[weight.link]) continue;
        const double demand = weight.bytes_per_s * static_cast<double>(exact.cap);
        table.hops.push_back({weight.link, weight.bytes_per_s, static_cast<Work>(demand)});
      }
      const auto hops = static_cast<std::uint32_t>(table.hops.size()) - exact.hop_begin;
      if (hops > 0 || exact.host != kNone) {
        table.flows.push_back(exact);
        table.flows.back().hop_count = hops;
      } else if (alone > slowest_private) {
        slowest_private = alone;
        prepared.private_work = exact.work;
        prepared.private_rate = exact.cap;
      }
    }
    prepared.shared_count = static_cast<std::uint32_t>(table.flows.size()) - prepared.shared_begin;
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
