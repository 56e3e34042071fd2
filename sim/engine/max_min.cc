#include "sim/engine/max_min.h"

#include <algorithm>
#include <cmath>

namespace twinstep {
namespace {

// Shares that differ by less are the same: their links fill up together.
constexpr double kSameShare = 1e-12;

Work Demand(const SharedHop& hop, FixedRate cap) {
  return static_cast<Work>(hop.weight * static_cast<double>(cap));
}

void Drop(std::uint32_t id, std::vector<std::uint32_t>* ids) {
  const auto it = std::find(ids->begin(), ids->end(), id);
  *it = ids->back();
  ids->pop_back();
}

FixedRate Round(double rate) { return rate < 1 ? 1 : static_cast<FixedRate>(std::nearbyint(rate)); }

}  // namespace

MaxMin::MaxMin(const CostTable& table)
    : table_(table), links_(table.link_capacity.size()), hosts_(table.hosts) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    links_[i].capacity = table.link_capacity[i];
    // Caps are rounded to whole units: that alone must not make a link look full.
    links_[i].full = static_cast<Work>(table.link_capacity[i] * (1 + kSameShare)) + 8;
  }
}

void MaxMin::Touch(std::uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

void MaxMin::TouchHost(std::uint32_t host) {
  if (hosts_[host].dirty) return;
  hosts_[host].dirty = true;
  dirty_hosts_.push_back(host);
}

void MaxMin::CapCopies() {
  for (const std::uint32_t i : dirty_hosts_) {
    HostState& host = hosts_[i];
    host.dirty = false;
    const std::size_t state = table_.host_copies.StateOf(host.up, host.down);
    const FixedRate h2d = table_.host_caps.h2d[state], d2h = table_.host_caps.d2h[state];
    for (const std::uint32_t id : host.flows) {
      const SharedFlow& flow = table_.flows[active_[id].flow];
      SetCap(id, std::min(flow.cap, flow.to_gpu ? h2d : d2h));
    }
  }
  dirty_hosts_.clear();
}

void MaxMin::SetCap(std::uint32_t id, FixedRate cap) {
  ActiveFlow& active = active_[id];
  if (active.cap == cap) return;
  for (const SharedHop& hop : Hops(id)) {
    links_[hop.link].demand += Demand(hop, cap);
    links_[hop.link].demand -= Demand(hop, active.cap);
    Touch(hop.link);
  }
  active.cap = cap;
  active.rate = cap;
  Report(id);
}

void MaxMin::Report(std::uint32_t id) {
  if (active_[id].reported) return;
  active_[id].reported = true;
  changed_.push_back(id);
}

void MaxMin::Add(std::uint32_t id, std::uint32_t flow) {
  if (id >= active_.size()) active_.resize(id + 1);
  ActiveFlow& active = active_[id];
  active.flow = flow;
  active.active = true;
  active.cap = table_.flows[flow].cap;
  active.rate = active.cap;
  Report(id);
  if (const std::uint32_t at = table_.flows[flow].host; at != kNone) {
    HostState& host = hosts_[at];
    (table_.flows[flow].to_gpu ? host.up : host.down) += table_.flows[flow].host_gpus;
    host.flows.push_back(id);
    TouchHost(at);
  }
  for (const SharedHop& hop : Hops(id)) {
    links_[hop.link].flows.push_back(id);
    links_[hop.link].demand += hop.demand;
    Touch(hop.link);
  }
}

void MaxMin::Remove(std::uint32_t id) {
  active_[id].active = false;
  const SharedFlow& flow = table_.flows[active_[id].flow];
  if (flow.host != kNone) {
    HostState& host = hosts_[flow.host];
    (flow.to_gpu ? host.up : host.down) -= flow.host_gpus;
    Drop(id, &host.flows);
    TouchHost(flow.host);
  }
  for (const SharedHop& hop : Hops(id)) {
    LinkState& link = links_[hop.link];
    Drop(id, &link.flows);
    link.demand -= Demand(hop, active_[id].cap);
    Touch(hop.link);
  }
}

void MaxMin::VisitFlows(std::uint32_t link) {
  for (const std::uint32_t id : links_[link].flows) {
    if (active_[id].visited == visit_) continue;
    active_[id].visited = visit_;
    some_flows_.push_back(id);
  }
}

void MaxMin::CollectAffected() {
  ++visit_;
  some_flows_.clear();
  some_links_.clear();
  // A link that is no longer full sets its flows free: they belong to the affected part too.
  for (const std::uint32_t i : dirty_) {
    LinkState& link = links_[i];
    link.dirty = false;
    const bool was_tight = link.tight;
    link.tight = link.demand > link.full;
    if (link.tight || was_tight) VisitFlows(i);
  }
  dirty_.clear();
  for (std::size_t next = 0; next < some_flows_.size(); ++next) {
    for (const SharedHop& hop : Hops(some_flows_[next])) {
      LinkState& link = links_[hop.link];
      if (!link.tight || link.visited == visit_) continue;
      link.visited = visit_;
      some_links_.push_back(hop.link);
      VisitFlows(hop.link);
    }
  }
}

void MaxMin::Freeze(std::uint32_t id, double rate) {
  for (const SharedHop& hop : Hops(id)) {
    LinkState& link = links_[hop.link];
    if (link.visited != visit_) continue;
    link.remaining = std::max(0.0, link.remaining - hop.weight * rate);
    link.weight -= hop.weight;
    --link.unfrozen;
  }
  const FixedRate rounded = std::min(Round(rate), active_[id].cap);
  if (active_[id].rate == rounded) return;
  active_[id].rate = rounded;
  Report(id);
}

void MaxMin::Solve() {
  for (const std::uint32_t i : some_links_) {
    LinkState& link = links_[i];
    link.remaining = link.capacity;
    link.weight = 0;
    link.unfrozen = 0;
  }
  for (const std::uint32_t id : some_flows_) {
    for (const SharedHop& hop : Hops(id)) {
      LinkState& link = links_[hop.link];
      if (link.visited != visit_) continue;
      link.weight += hop.weight;
      ++link.unfrozen;
    }
  }
  while (!some_flows_.empty()) {
    double share = HUGE_VAL;
    for (const std::uint32_t i : some_links_) {
      const LinkState& link = links_[i];
      if (link.unfrozen > 0) share = std::min(share, link.remaining / link.weight);
    }
    // The share of no link ever falls, so whoever is content with the least is settled.
    std::size_t kept = 0;
    for (const std::uint32_t id : some_flows_) {
      const auto cap = static_cast<double>(active_[id].cap);
      if (cap <= share) {
        Freeze(id, cap);
      } else {
        some_flows_[kept++] = id;
      }
    }
    if (kept < some_flows_.size()) {
      some_flows_.resize(kept);
      continue;
    }
    const double limit = share * (1 + kSameShare);
    for (const std::uint32_t i : some_links_) {
      LinkState& link = links_[i];
      link.bottleneck = link.unfrozen > 0 && link.remaining / link.weight <= limit;
    }
    kept = 0;
    for (const std::uint32_t id : some_flows_) {
      const auto hops = Hops(id);
      const bool limited = std::any_of(hops.begin(), hops.end(), [this](const SharedHop& hop) {
        return links_[hop.link].visited == visit_ && links_[hop.link].bottleneck;
      });
      if (limited) {
        Freeze(id, share);
      } else {
        some_flows_[kept++] = id;
      }
    }
    some_flows_.resize(kept);
  }
}

std::span<const std::uint32_t> MaxMin::Settle() {
  if (!dirty_hosts_.empty()) CapCopies();
  if (!dirty_.empty()) {
    CollectAffected();
    Solve();
  }
  settled_.clear();
  for (const std::uint32_t id : changed_) {
    active_[id].reported = false;
    if (active_[id].active) settled_.push_back(id);
  }
  changed_.clear();
  return settled_;
}

}  // namespace twinstep
