#include "sim/cost/link_map.h"

#include <algorithm>
#include <cmath>

#include "sim/cost/efficiency.h"

namespace twinstep {
namespace {

// A multiplicity as both engines take it: in parts of 32.
double InParts(double multiplicity) {
  constexpr double kParts = 32;
  return std::round(multiplicity * kParts) / kParts;
}

}  // namespace

LinkMap::LinkMap(const TaskGraph& graph, const Cluster& cluster, const LinkOverrides& overrides)
    : graph_(graph), cluster_(cluster), layout_(cluster) {
  const Pcie& pcie = cluster_.node().pcie();
  const Host& host = cluster_.node().host();
  duplex_bytes_per_s_ =
      overrides.duplex_bytes_per_s > 0 ? overrides.duplex_bytes_per_s : pcie.duplex_bytes_per_s();
  if (duplex_bytes_per_s_ >= pcie.h2d_bytes_per_s() + pcie.d2h_bytes_per_s()) {
    duplex_bytes_per_s_ = 0;
  }

  host_adam_bytes_per_param_ =
      host.adam_bytes_per_param() > 0 ? host.adam_bytes_per_param() : kAdamBytesPerParam;
  const double dram = dram_bytes_per_s_ = host.dram_bytes_per_s();
  const double copying = overrides.copying_gpus;
  host_adam_params_per_s_ = overrides.host_adam_params_per_s > 0 ? overrides.host_adam_params_per_s
                            : host.adam_params_per_s() > 0
                                ? host.adam_params_per_s()
                                : kWriteAllocate * dram / host_adam_bytes_per_param_;
  const double cores_bytes_per_s =
      static_cast<double>(host.cores()) * kWriteAllocate * host.core_bytes_per_s();
  if (cores_bytes_per_s > 0 && !(overrides.host_adam_params_per_s > 0)) {
    host_adam_params_per_s_ =
        std::min(host_adam_params_per_s_, cores_bytes_per_s / host_adam_bytes_per_param_);
  }
  const double adam_bytes_per_s = host_adam_params_per_s_ * host_adam_bytes_per_param_;
  if (dram > 0 && adam_bytes_per_s > 0) {
    // Alone, Adam runs at its rate even where that is more traffic than triad's figure admits.
    host_adam_dram_share_ = std::min(1.0, dram / adam_bytes_per_s);
    const double beside = overrides.host_adam_params_per_s_beside_copies;
    if (beside > 0) {
      // Measured beside copies both ways: with them it fills the memory's bandwidth.
      const double copies = copying * BothWays();
      const double adam = beside * host_adam_bytes_per_param_;
      double filled = dram;
      if (copying > 1) {
        // What was measured had room. Copies of several GPUs were slower there than alone, which
        // CopySlowdown says: links see them as fast as alone.
        const double then = overrides.dram_bytes_per_s > 0 ? overrides.dram_bytes_per_s : dram;
        filled = std::max(then, copies + adam);
        dram_bytes_per_s_ = filled * (dram / then);
      }
      const double share = (filled - copies) / adam;
      if (share > 0) host_adam_dram_share_ = std::min(host_adam_dram_share_, share);
    }
  }

  if (overrides.copies_slowdown > 1) {
    host_copies_bytes_per_s_ =
        static_cast<double>(layout_.gpus_per_node()) * BothWays() / overrides.copies_slowdown;
  }

  // Measured beside copies one way, of `copying` GPUs at once: what Adam loses is what they take.
  const auto displaced = [&](double beside, double copy_bytes_per_s) {
    if (!(beside > 0) || !(host_adam_params_per_s_ > beside) || !(copy_bytes_per_s > 0)) return 0.0;
    return InParts((1 - beside / host_adam_params_per_s_) * adam_bytes_per_s /
                   (copying * copy_bytes_per_s));
  };
  h2d_adam_share_ = displaced(overrides.host_adam_params_per_s_beside_h2d, pcie.h2d_bytes_per_s());
  d2h_adam_share_ = displaced(overrides.host_adam_params_per_s_beside_d2h, pcie.d2h_bytes_per_s());

  if (graph_.rank_class.empty()) {
    for (std::uint32_t i = 0; i < graph_.ranks.size(); ++i) {
      class_of_.emplace(graph_.ranks[i].global_rank, i);
    }
  }
  shares_.reserve(graph_.ranks.size());
  for (std::uint32_t i = 0; i < graph_.ranks.size(); ++i) shares_.push_back(SharesOf(i));
}

double LinkMap::BothWays() const {
  const Pcie& pcie = cluster_.node().pcie();
  return duplex_bytes_per_s_ > 0 ? duplex_bytes_per_s_
                                 : pcie.h2d_bytes_per_s() + pcie.d2h_bytes_per_s();
}

std::uint32_t LinkMap::ClassOf(std::uint32_t global_rank) const {
  if (!graph_.rank_class.empty()) {
    return global_rank < graph_.rank_class.size() ? graph_.rank_class[global_rank] : kNone;
  }
  const auto at = class_of_.find(global_rank);
  return at == class_of_.end() ? kNone : at->second;
}

LinkMap::ClassShares LinkMap::SharesOf(std::uint32_t rank_class) const {
  const std::uint32_t self = graph_.ranks[rank_class].global_rank;
  ClassShares shares;
  shares.node = shares.port = shares.uplink = {.lowest_class = rank_class, .own = 0};
  const auto count = [&](std::uint32_t other_class, Share* share) {
    share->lowest_class = std::min(share->lowest_class, other_class);
    if (other_class == rank_class) ++share->own;
  };
  const auto first = static_cast<std::uint32_t>(NodeOf(self) * layout_.gpus_per_node());
  for (std::int64_t local = 0; local < layout_.gpus_per_node(); ++local) {
    const std::uint32_t other_class = ClassOf(first + static_cast<std::uint32_t>(local));
    if (other_class == kNone) continue;
    count(other_class, &shares.node);
    if (layout_.NicPortOf(local) == layout_.NicPortOf(LocalOf(self))) {
      count(other_class, &shares.port);
    }
    if (layout_.UplinkOf(local) == layout_.UplinkOf(LocalOf(self))) {
      count(other_class, &shares.uplink);
    }
  }
  return shares;
}

std::uint32_t LinkMap::MemberOf(const Group& group, RankId rank) const {
  const std::uint32_t self = graph_.ranks[rank].global_rank;
  std::uint32_t of_class = kNone;
  for (const std::uint32_t member : group.members) {
    if (member == self) return self;
    if (of_class == kNone && ClassOf(member) == rank) of_class = member;
  }
  return of_class;
}

const LinkMap::GroupLayout& LinkMap::LayoutOf(GroupId group) {
  const auto [at, is_new] = layouts_.try_emplace(group);
  GroupLayout& layout = at->second;
  if (!is_new) return layout;
  for (const std::uint32_t member : graph_.groups[group].members) {
    const std::int64_t members = ++layout.members_of_node[NodeOf(member)];
    layout.largest_node_members = std::max(layout.largest_node_members, members);
    if (ClassOf(member) == kNone) layout.unknown_member = member;
  }
  return layout;
}

bool LinkMap::IsSpreadOverSwitches(GroupId group, std::int64_t node) const {
  std::vector<std::int64_t> switches;
  for (const std::uint32_t member : graph_.groups[group].members) {
    if (NodeOf(member) == node) switches.push_back(layout_.UplinkOf(LocalOf(member)));
  }
  std::sort(switches.begin(), switches.end());
  return std::adjacent_find(switches.begin(), switches.end()) == switches.end();
}

GroupShape LinkMap::ShapeOf(GroupId group, RankId rank) {
  const GroupLayout& layout = LayoutOf(group);
  GroupShape shape;
  shape.members = static_cast<std::int64_t>(graph_.groups[group].members.size());
  shape.nodes = static_cast<std::int64_t>(layout.members_of_node.size());
  shape.largest_node_members = layout.largest_node_members;
  const std::uint32_t self = MemberOf(graph_.groups[group], rank);
  if (self == kNone) return shape;
  shape.own_node_members = layout.members_of_node.at(NodeOf(self));
  shape.is_spread_over_switches = IsSpreadOverSwitches(group, NodeOf(self));
  return shape;
}

LinkMap::Ends LinkMap::EndsOf(const Group* group, RankId sender, RankId receiver) const {
  const Ends own = {.from = graph_.ranks[sender].global_rank,
                    .to = graph_.ranks[receiver].global_rank};
  if (group == nullptr || group->members.size() != 2) return own;
  const std::uint32_t a = group->members[0], b = group->members[1];
  if (ClassOf(a) == sender && ClassOf(b) == receiver) return {.from = a, .to = b};
  if (ClassOf(b) == sender && ClassOf(a) == receiver) return {.from = b, .to = a};
  return own;
}

double LinkMap::Capacity(LinkKind kind) const {
  const Node& node = cluster_.node();
  switch (kind) {
    case LinkKind::kPcieH2D:
      return node.pcie().h2d_bytes_per_s();
    case LinkKind::kPcieD2H:
      return node.pcie().d2h_bytes_per_s();
    case LinkKind::kPcieDuplex:
      return duplex_bytes_per_s_;
    case LinkKind::kUplinkH2D:
    case LinkKind::kUplinkD2H:
      if (layout_.gpus_per_uplink() <= 1) return 0;
      if (node.pcie().uplink_bytes_per_s() > 0) return node.pcie().uplink_bytes_per_s();
      return kind == LinkKind::kUplinkH2D ? node.pcie().h2d_bytes_per_s()
                                          : node.pcie().d2h_bytes_per_s();
    case LinkKind::kDram:
      return dram_bytes_per_s_;
    case LinkKind::kNvlinkOut:
    case LinkKind::kNvlinkIn:
      return node.nvlink().bytes_per_s();
    case LinkKind::kNicOut:
    case LinkKind::kNicIn:
      // What its protocol leaves, however many flows share it.
      return layout_.nic_port_bytes_per_s() *
             std::max(OneIfUnset(node.nic().collective_efficiency()),
                      OneIfUnset(node.nic().p2p_efficiency()));
    case LinkKind::kHostCopies:
      return host_copies_bytes_per_s_;
    case LinkKind::kHostCompute:
      return host_adam_params_per_s_ * host_adam_bytes_per_param_;
  }
  return 0;
}

void LinkMap::AddHop(LinkKind kind, std::uint32_t lowest, double multiplicity,
                     std::vector<RouteHop>* hops) {
  if (!(multiplicity > 0)) return;
  const double capacity = Capacity(kind);
  if (!(capacity > 0)) return;  // No such link, or no limit known.
  const std::uint64_t key = std::uint64_t{lowest} * kLinkKindCount + static_cast<unsigned>(kind);
  const auto [at, is_new] = link_ids_.try_emplace(key, static_cast<std::uint32_t>(links_.size()));
  if (is_new) {
    const std::uint32_t owner = graph_.ranks[lowest].global_rank;
    std::int64_t index = LocalOf(owner);
    if (kind == LinkKind::kNicOut || kind == LinkKind::kNicIn) index = layout_.NicPortOf(index);
    if (kind == LinkKind::kUplinkH2D || kind == LinkKind::kUplinkD2H) {
      index = layout_.UplinkOf(index);
    }
    if (kind == LinkKind::kDram || kind == LinkKind::kHostCompute ||
        kind == LinkKind::kHostCopies) {
      index = 0;
    }
    links_.push_back({.kind = kind,
                      .node = static_cast<std::uint32_t>(NodeOf(owner)),
                      .index = static_cast<std::uint32_t>(index),
                      .bytes_per_s = capacity});
  }
  hops->push_back({.link = at->second, .multiplicity = multiplicity});
}

void LinkMap::AddPcie(std::uint32_t rank_class, bool h2d, double share, double uplink_share,
                      std::vector<RouteHop>* hops) {
  AddHop(h2d ? LinkKind::kPcieH2D : LinkKind::kPcieD2H, rank_class, share, hops);
  AddHop(LinkKind::kPcieDuplex, rank_class, share, hops);
  const Share& uplink = shares_[rank_class].uplink;
  AddHop(h2d ? LinkKind::kUplinkH2D : LinkKind::kUplinkD2H, uplink.lowest_class,
         uplink_share * uplink.own, hops);
}

void LinkMap::AddCopy(RankId rank, bool h2d, std::vector<RouteHop>* hops) {
  AddPcie(rank, h2d, 1, 1, hops);
  AddHostMemory(rank, hops);
  AddHop(LinkKind::kHostCopies, shares_[rank].node.lowest_class, shares_[rank].node.own, hops);
  const double adam_share = h2d ? h2d_adam_share_ : d2h_adam_share_;
  if (adam_share > 0) {
    const Share& node = shares_[rank].node;
    AddHop(LinkKind::kHostCompute, node.lowest_class, node.own * adam_share, hops);
  }
}

void LinkMap::AddHostMemory(RankId rank, std::vector<RouteHop>* hops) {
  const Share& node = shares_[rank].node;
  AddHop(LinkKind::kDram, node.lowest_class, node.own, hops);
}

void LinkMap::AddHostAdam(RankId rank, double rate_share, std::vector<RouteHop>* hops) {
  const Share& node = shares_[rank].node;
  AddHop(LinkKind::kHostCompute, node.lowest_class, InParts(node.own / rate_share), hops);
  AddHop(LinkKind::kDram, node.lowest_class, node.own * host_adam_dram_share_, hops);
}

void LinkMap::AddPeerRing(GroupId group_id, RankId rank, std::vector<RouteHop>* hops) {
  if (cluster_.node().nvlink().bytes_per_s() > 0) {
    AddHop(LinkKind::kNvlinkOut, rank, 1, hops);
    AddHop(LinkKind::kNvlinkIn, rank, 1, hops);
    return;
  }
  // Over PCIe: of the members below one switch one reaches beyond it on each channel; through the
  // host's memory all do.
  const bool via_host = cluster_.node().pcie().peer_via_host();
  double uplink_share = 1;
  if (!via_host) {
    const Group& group = graph_.groups[group_id];
    const std::uint32_t self = MemberOf(group, rank);
    double below = 0, in_node = 0;
    for (const std::uint32_t member : group.members) {
      if (self == kNone || NodeOf(member) != NodeOf(self)) continue;
      ++in_node;
      if (layout_.UplinkOf(LocalOf(member)) == layout_.UplinkOf(LocalOf(self))) ++below;
    }
    uplink_share = below < in_node && below > 0 ? 1 / below : 0;
  }
  AddPcie(rank, /*h2d=*/false, 1, uplink_share, hops);
  AddPcie(rank, /*h2d=*/true, 1, uplink_share, hops);
  if (via_host) {  // Written once and read once.
    const Share& node = shares_[rank].node;
    AddHop(LinkKind::kDram, node.lowest_class, 2 * node.own, hops);
  }
}

void LinkMap::AddNicRing(RankId rank, double share, std::vector<RouteHop>* hops) {
  // NICs hang below the GPUs' own switches (GPUDirect): no uplink, but the GPU's PCIe link.
  AddPcie(rank, /*h2d=*/false, share, 0, hops);
  AddPcie(rank, /*h2d=*/true, share, 0, hops);
  const Share& port = shares_[rank].port;
  AddHop(LinkKind::kNicOut, port.lowest_class, share * port.own, hops);
  AddHop(LinkKind::kNicIn, port.lowest_class, share * port.own, hops);
}

void LinkMap::AddMessage(const Ends& ends, double share, std::vector<RouteHop>* hops) {
  const std::uint32_t from = ClassOf(ends.from), to = ClassOf(ends.to);
  if (SameNode(ends) && cluster_.node().nvlink().bytes_per_s() > 0) {
    AddHop(LinkKind::kNvlinkOut, from, share, hops);
    AddHop(LinkKind::kNvlinkIn, to, share, hops);
    return;
  }
  if (SameNode(ends)) {
    const bool via_host = cluster_.node().pcie().peer_via_host();
    const bool beyond =
        via_host || layout_.UplinkOf(LocalOf(ends.from)) != layout_.UplinkOf(LocalOf(ends.to));
    AddPcie(from, /*h2d=*/false, share, beyond ? share : 0, hops);
    AddPcie(to, /*h2d=*/true, share, beyond ? share : 0, hops);
    if (via_host) {
      const Share& node = shares_[from].node;
      AddHop(LinkKind::kDram, node.lowest_class, 2 * share * node.own, hops);
    }
    return;
  }
  AddPcie(from, /*h2d=*/false, share, 0, hops);
  AddHop(LinkKind::kNicOut, shares_[from].port.lowest_class, share * shares_[from].port.own, hops);
  AddHop(LinkKind::kNicIn, shares_[to].port.lowest_class, share * shares_[to].port.own, hops);
  AddPcie(to, /*h2d=*/true, share, 0, hops);
}

}  // namespace twinstep
