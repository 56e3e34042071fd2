// Max-min fair rates of the flows in progress, recomputed only where something changed.
//
// The rates of all flows rise together until a link is full or a flow reaches its cap; those stay,
// the others rise on (progressive filling; Bertsekas and Gallager, Data Networks, 6.5.2). A flow
// counts `weight` times on a link: sum of weight x rate <= capacity. Links which bear all
// their present flows at their caps limit nobody, so a change reaches only the flows connected to
// it through full links.
//
// Caps of copies change with how many GPUs of their host copy (HostCopyRates): all that a host has
// under way get new ones when a copy begins or ends there.
//
//   MaxMin solver(table);
//   solver.Add(flow_id, index_of_shared_flow);
//   for (std::uint32_t id : solver.Settle()) use(solver.rate(id));  // Only the changed ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/cost_table.h"

namespace twinstep {

class MaxMin {
 public:
  // The table must outlive the solver.
  explicit MaxMin(const CostTable& table);

  // Starts a flow as `id` (small numbers, the caller's, free for reuse after Remove), whose route
  // and cap are table.flows[flow].
  void Add(std::uint32_t id, std::uint32_t flow);
  void Remove(std::uint32_t id);

  // Brings the rates up to date. Returns the flows that are new or whose rate changed, valid until
  // the next call.
  std::span<const std::uint32_t> Settle();

  FixedRate rate(std::uint32_t id) const { return active_[id].rate; }

 private:
  struct ActiveFlow {
    std::uint32_t flow = 0;
    bool active = false;
    bool reported = false;  // Stands in changed_.
    std::uint32_t visited = 0;
    FixedRate cap = 0;  // Now.
    FixedRate rate = 0;
  };
  struct HostState {
    std::uint32_t up = 0, down = 0;  // GPUs that copy.
    bool dirty = false;
    std::vector<std::uint32_t> flows;
  };
  struct LinkState {
    double capacity = 0;
    Work full = 0;    // Demand above this makes the link a possible bottleneck.
    Work demand = 0;  // Of its flows at their caps.
    bool dirty = false;
    bool tight = false;  // As of the last Settle.
    std::uint32_t visited = 0;
    // While solving:
    double remaining = 0, weight = 0;
    std::uint32_t unfrozen = 0;
    bool bottleneck = false;
    std::vector<std::uint32_t> flows;
  };

  std::span<const SharedHop> Hops(std::uint32_t id) const {
    const SharedFlow& flow = table_.flows[active_[id].flow];
    return {table_.hops.data() + flow.hop_begin, flow.hop_count};
  }
  void TouchHost(std::uint32_t host);
  void CapCopies();
  void SetCap(std::uint32_t id, FixedRate cap);
  void Touch(std::uint32_t link);
  void Report(std::uint32_t id);
  void VisitFlows(std::uint32_t link);
  void CollectAffected();
  void Solve();
  void Freeze(std::uint32_t id, double rate);

  const CostTable& table_;
  std::vector<ActiveFlow> active_;
  std::vector<LinkState> links_;
  std::vector<HostState> hosts_;
  std::vector<std::uint32_t> dirty_, dirty_hosts_;
  std::vector<std::uint32_t> changed_;  // Since the last Settle.
  std::vector<std::uint32_t> settled_;  // What the last Settle returned.
  std::uint32_t visit_ = 0;
  // The part of the network that is being solved.
  std::vector<std::uint32_t> some_flows_, some_links_;
};

}  // namespace twinstep
