// The shared links of a cluster, as the represented ranks of a graph see them.
//
// In a folded graph a class of ranks is one rank, and the real links that serve a class alike are
// one Link: two real links are the same Link if the same classes hang on them. A flow of a class
// crosses it with a multiplicity, the ranks of that class on the real link. The partition into
// classes is equitable (sim/plan/placement.h), so the lowest class on a link names it. In an
// unfolded graph every rank is its own class, and links and multiplicities are the real ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "sim/cost/collective_cost.h"
#include "sim/cost/graph_costs.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/node_layout.h"

namespace twinstep {

// What links carry when it differs from the cluster's constants (measured in a Profile).
struct LinkOverrides {
  double duplex_bytes_per_s = 0;
  double host_adam_params_per_s = 0;
  double host_adam_params_per_s_beside_copies = 0;
  double host_adam_params_per_s_beside_h2d = 0, host_adam_params_per_s_beside_d2h = 0;
  // Where that was measured: GPUs of the node, which all copied at once while all ranks' Adam ran
  // (so one GPU's copies take their part of what Adam lost), and the host's triad figure.
  double copying_gpus = 1, dram_bytes_per_s = 0;
  // How much longer copies both ways take while all GPUs of a node copy so; 0 = no longer.
  double copies_slowdown = 0;
};

// What CPU Adam moves of the host's memory: master and moments read and written, bf16 gradient
// read, parameter written.
inline constexpr double kAdamBytesPerParam = 28;
// STREAM triad counts 24 bytes where write-allocate moves 32.
inline constexpr double kWriteAllocate = 4.0 / 3;

class LinkMap {
 public:
  // `graph` must outlive this.
  LinkMap(const TaskGraph& graph, const Cluster& cluster, const LinkOverrides& overrides);

  // How a group lies on nodes, seen from represented rank `rank` (or from the member of its class
  // that belongs to it, where the representative itself does not).
  GroupShape ShapeOf(GroupId group, RankId rank);
  // A member that is no rank of the graph, kNone if there is none.
  std::uint32_t UnknownMember(GroupId group) { return LayoutOf(group).unknown_member; }

  // Global ranks of a message's ends; `sender` and `receiver` are represented ranks.
  struct Ends {
    std::uint32_t from = 0, to = 0;
  };
  Ends EndsOf(const Group* group, RankId sender, RankId receiver) const;

  bool SameNode(const Ends& ends) const { return NodeOf(ends.from) == NodeOf(ends.to); }

  // Routes; hops are appended to `hops`. `share` scales every multiplicity.
  void AddCopy(RankId rank, bool h2d, std::vector<RouteHop>* hops);
  // `rate_share` of the host's rate: its cores take longer for the same bytes.
  void AddHostAdam(RankId rank, double rate_share, std::vector<RouteHop>* hops);
  void AddHostMemory(RankId rank, std::vector<RouteHop>* hops);
  // From a member to the next in its node and in from the one before.
  void AddPeerRing(GroupId group, RankId rank, std::vector<RouteHop>* hops);
  // Out of the node through the own NIC port and in likewise.
  void AddNicRing(RankId rank, double share, std::vector<RouteHop>* hops);
  void AddMessage(const Ends& ends, double share, std::vector<RouteHop>* hops);

  // Flow::host of its copies, the lowest class on it, and how many GPUs of that host it stands for.
  struct HostShare {
    std::uint32_t host = 0, gpus = 1;
  };
  HostShare HostOf(RankId rank) const {
    const Share& node = shares_[rank].node;
    return {node.lowest_class, static_cast<std::uint32_t>(std::max(1.0, node.own))};
  }

  // The links; `bytes_per_s` of one may be raised where a faster flow was measured on it.
  std::vector<Link> TakeLinks() { return std::move(links_); }
  Link& link(std::uint32_t id) { return links_[id]; }

  // CPU Adam's rate of the whole node, parameters a second, and its traffic.
  double host_adam_params_per_s() const { return host_adam_params_per_s_; }
  double host_adam_bytes_per_param() const { return host_adam_bytes_per_param_; }

 private:
  // The ranks of one class among those on one real resource.
  struct Share {
    std::uint32_t lowest_class = 0;  // On the resource.
    double own = 1;                  // Ranks of the class.
  };
  // By class: its share of its node, NIC port and uplink.
  struct ClassShares {
    Share node, port, uplink;
  };

  // Members by node, of all groups once.
  struct GroupLayout {
    std::unordered_map<std::int64_t, std::int64_t> members_of_node;
    std::int64_t largest_node_members = 1;
    std::uint32_t unknown_member = kNone;
  };
  const GroupLayout& LayoutOf(GroupId group);

  std::int64_t NodeOf(std::uint32_t global_rank) const {
    return global_rank / layout_.gpus_per_node();
  }
  std::int64_t LocalOf(std::uint32_t global_rank) const {
    return global_rank % layout_.gpus_per_node();
  }
  // No two members on `node` are below one PCIe switch.
  bool IsSpreadOverSwitches(GroupId group, std::int64_t node) const;
  std::uint32_t ClassOf(std::uint32_t global_rank) const;
  std::uint32_t MemberOf(const Group& group, RankId rank) const;
  ClassShares SharesOf(std::uint32_t rank_class) const;
  // Adds a hop over the link `kind` that the resource of lowest class `lowest` has.
  void AddHop(LinkKind kind, std::uint32_t lowest, double multiplicity,
              std::vector<RouteHop>* hops);
  // One direction of a GPU's way over PCIe, `uplink_share` of it beyond its switch.
  void AddPcie(std::uint32_t rank_class, bool h2d, double share, double uplink_share,
               std::vector<RouteHop>* hops);
  double Capacity(LinkKind kind) const;
  double BothWays() const;  // Bytes a second of one GPU's copies, both directions together.

  const TaskGraph& graph_;
  const Cluster cluster_;
  const NodeLayout layout_;
  double duplex_bytes_per_s_ = 0;  // 0 = no limit beyond the two directions'.
  double dram_bytes_per_s_ = 0, host_copies_bytes_per_s_ = 0;  // 0 = no limit known.
  double host_adam_params_per_s_ = 0, host_adam_bytes_per_param_ = 0;
  double host_adam_dram_share_ = 1;  // DRAM bytes that count, of one byte of Adam's traffic.
  // Bytes of Adam's traffic that one byte of a copy displaces; 0 = none but DRAM's.
  double h2d_adam_share_ = 0, d2h_adam_share_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> class_of_;  // Where rank_class is not filled.
  std::vector<ClassShares> shares_;
  std::unordered_map<GroupId, GroupLayout> layouts_;
  std::vector<Link> links_;
  std::unordered_map<std::uint64_t, std::uint32_t> link_ids_;
};

}  // namespace twinstep
