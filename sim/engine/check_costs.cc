#include "sim/engine/check_costs.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "hw_specs/interference_factors.h"
#include "sim/engine/fixed_point.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::uint32_t kMostHostGpus = HostCopyRates::kMostGpus;

bool IsFactor(double factor) { return factor == 0 || (factor > 1e-6 && factor < 1e6); }

Error BadCost(const std::string& message) { return Error{.message = message}; }

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

Status CheckCost(const GraphCosts& costs, std::size_t index) {
  const TaskCost& cost = costs.costs[index];
  if (cost.fixed_ps < 0 || cost.fixed_ps > kMaxTime) {
    return BadCost(StrCat("cost ", index, ": fixed_ps ", cost.fixed_ps));
  }
  if (cost.flow_begin > costs.flows.size() ||
      cost.flow_count > costs.flows.size() - cost.flow_begin) {
    return BadCost(StrCat("cost ", index, ": flows ", cost.flow_begin, " + ", cost.flow_count,
                          " of ", costs.flows.size()));
  }
  if (!(cost.interference_sensitivity >= 0 && cost.interference_sensitivity <= 1)) {
    return BadCost(StrCat("cost ", index, ": interference_sensitivity ",
                          cost.interference_sensitivity, " is not in [0, 1]"));
  }
  if (cost.lets_in_ps < 0 || cost.lets_in_ps > cost.fixed_ps) {
    return BadCost(StrCat("cost ", index, ": lets_in_ps ", cost.lets_in_ps,
                          " is not in [0, fixed_ps ", cost.fixed_ps, "]"));
  }
  return CheckSlowdowns(cost, index);
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
    if (Status status = CheckCost(costs, i); !status.ok()) return status;
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

}  // namespace twinstep
