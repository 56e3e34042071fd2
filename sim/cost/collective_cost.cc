#include "sim/cost/collective_cost.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "sim/cost/efficiency.h"
#include "sim/cost/ring_protocol.h"
#include "sim/plan/node_layout.h"

namespace twinstep {
namespace {

double SecondsAt(double bytes, double bytes_per_s) {
  if (bytes <= 0) return 0;
  return bytes_per_s > 0 ? bytes / bytes_per_s : std::numeric_limits<double>::infinity();
}

// A pass of the ring algorithm: transfers of 1 / members of the tensor, and the passes of the
// kernel over its chunks (one more: the first only sends or the last only receives).
struct RingPasses {
  double transfers = 0, passes = 0;
};

RingPasses PassesOf(OpCode op, double members) {
  switch (op) {
    case OpCode::kAllReduce:
      return {.transfers = 2 * (members - 1), .passes = 2 * members - 1};
    case OpCode::kAllGather:
    case OpCode::kReduceScatter:
      return {.transfers = members - 1, .passes = members};
    default:
      return {.transfers = members, .passes = members};  // A shift moves whole operands.
  }
}

double RingRate(const Cluster& cluster, const RingPasses& ring) {
  const NvLink& link = cluster.node().nvlink();
  const double rate = PeerBytesPerSecond(cluster) * OneIfUnset(link.collective_efficiency());
  if (link.collective_pass_bytes_per_s() <= 0) return rate;
  return std::min(rate, link.collective_pass_bytes_per_s() * ring.transfers / ring.passes);
}

// Start-up worth `half_bytes`, where there is a bandwidth at all.
double HalfSeconds(double half_bytes, double rate) {
  return half_bytes > 0 && rate > 0 ? half_bytes / rate : 0;
}

MovementCost RingInNode(const Cluster& cluster, OpCode op, double bytes, double members) {
  const NvLink& link = cluster.node().nvlink();
  const RingPasses ring = PassesOf(op, members);
  MovementCost cost;
  cost.peer_bytes = bytes * ring.transfers / members;
  cost.peer_bytes_per_s = RingRate(cluster, ring);
  const double steps = op == OpCode::kRingShift ? 1 : ring.transfers;
  const RingProtocol protocol =
      op == OpCode::kRingShift
          ? RingProtocol::kSimple
          : ChooseRingProtocol(link, steps, cost.peer_bytes, op == OpCode::kAllReduce);
  cost.fixed_s = link.latency_s() + steps * link.step_latency_s() * StepLatencyShare(protocol);
  if (protocol == RingProtocol::kSimple) {
    cost.fixed_s += HalfSeconds(link.half_bytes(), cost.peer_bytes_per_s);
  } else {
    const double efficiency =
        protocol == RingProtocol::kLl ? link.ll_efficiency() : link.ll128_efficiency();
    cost.peer_bytes_per_s = std::min(cost.peer_bytes_per_s, link.bytes_per_s() * efficiency);
  }
  return cost;
}

// Each port sends what the switch adds up (S) and its share of the result (S / n), which the
// switch multicasts.
MovementCost AllReduceInSwitch(const Cluster& cluster, double bytes, double members) {
  const NvLink& link = cluster.node().nvlink();
  MovementCost cost;
  cost.fixed_s = link.nvls_latency_s();
  cost.peer_bytes = bytes * (1 + 1 / members);
  cost.peer_bytes_per_s = link.bytes_per_s() * link.nvls_efficiency();
  return cost;
}

// Of the whole rendezvous, by one thread.
MovementCost SharedMemoryCost(const Cluster& cluster, OpCode op, double bytes,
                              std::int64_t members) {
  const auto n = static_cast<double>(members);
  double passes = 2;  // A message: read and written once.
  if (op == OpCode::kReduceScatter) passes = n + 1;
  if (op == OpCode::kAllReduce || op == OpCode::kAllGather || op == OpCode::kRingShift) {
    passes = 2 * n;
  }
  MovementCost cost;
  cost.peer_bytes = passes * bytes;
  cost.peer_bytes_per_s = cluster.gpu().memory_bytes_per_s();
  return cost;
}

MovementCost RingOverNodes(const Cluster& cluster, OpCode op, double bytes,
                           const GroupShape& shape) {
  const NvLink& link = cluster.node().nvlink();
  const Nic& nic = cluster.node().nic();
  const auto members = static_cast<double>(shape.members);
  const auto nodes = static_cast<double>(shape.nodes);
  const auto own = static_cast<double>(shape.own_node_members);
  const RingPasses ring = PassesOf(op, members);
  const double wire = bytes * ring.transfers / members;

  MovementCost cost;
  const NodeLayout layout(cluster);
  double efficiency = OneIfUnset(nic.collective_efficiency());
  if (op == OpCode::kAllReduce && nic.tree_efficiency() > 0 && bytes <= nic.tree_up_to_bytes()) {
    efficiency = nic.tree_efficiency();
  }
  cost.nic_bytes_per_s = layout.nic_port_bytes_per_s() * efficiency;
  if (own > 1 && shape.is_spread_over_switches && nic.through_host_bytes_per_s() > 0) {
    const auto gpus = static_cast<double>(layout.gpus_per_node());
    cost.nic_bytes_per_s = std::min(cost.nic_bytes_per_s, nic.through_host_bytes_per_s() / gpus);
  }
  if (op == OpCode::kRingShift) {
    // Only the last member of a node crosses to the next one, with all bytes.
    cost.nic_bytes = bytes;
    cost.peer_bytes = own > 1 ? bytes : 0;
  } else {
    cost.nic_bytes = wire / own;
    cost.peer_bytes = wire * (own - 1) / own;
  }
  cost.peer_bytes_per_s = cost.peer_bytes > 0 ? RingRate(cluster, ring) : 0;

  // A chunk that goes round once takes n - 1 steps, one less than nodes of them between nodes.
  double inside = members - nodes, between = nodes - 1;
  if (op == OpCode::kRingShift) {
    inside = 0;
    between = 1;
  } else if (op == OpCode::kAllReduce) {
    const auto depth = static_cast<double>(
        std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, shape.nodes - 1))));
    inside = 2 * std::min(inside, static_cast<double>(shape.largest_node_members - 1));
    between = 2 * std::min(between, depth);
  }
  cost.fixed_s = nic.latency_s() + inside * link.step_latency_s() + between * nic.step_latency_s() +
                 HalfSeconds(nic.half_bytes(), cost.nic_bytes_per_s);
  return cost;
}

}  // namespace

double MovementCost::FlowSeconds() const {
  return std::max(SecondsAt(peer_bytes, peer_bytes_per_s), SecondsAt(nic_bytes, nic_bytes_per_s));
}

double PeerBytesPerSecond(const Cluster& cluster) {
  const Node& node = cluster.node();
  if (node.nvlink().bytes_per_s() > 0) return node.nvlink().bytes_per_s();
  return std::min(node.pcie().h2d_bytes_per_s(), node.pcie().d2h_bytes_per_s());
}

MovementCost CollectiveCost(const Cluster& cluster, OpCode op, double bytes,
                            const GroupShape& shape) {
  if (shape.members <= 1) return {};
  if (cluster.node().workers().threads() > 0) {
    return SharedMemoryCost(cluster, op, bytes, shape.members);
  }
  if (shape.nodes > 1) return RingOverNodes(cluster, op, bytes, shape);
  const auto members = static_cast<double>(shape.members);
  const MovementCost ring = RingInNode(cluster, op, bytes, members);
  const NvLink& link = cluster.node().nvlink();
  if (op == OpCode::kAllReduce && link.nvls_efficiency() > 0 && link.bytes_per_s() > 0) {
    const MovementCost in_switch = AllReduceInSwitch(cluster, bytes, members);
    // NCCL goes by size and bandwidth, whatever the start costs.
    const bool is_chosen =
        link.nvls_from_bytes() > 0
            ? bytes >= link.nvls_from_bytes() && in_switch.FlowSeconds() < ring.FlowSeconds()
            : in_switch.Seconds() < ring.Seconds();
    if (is_chosen) return in_switch;
  }
  return ring;
}

MovementCost SendCost(const Cluster& cluster, double bytes, bool same_node) {
  if (cluster.node().workers().threads() > 0) {
    return SharedMemoryCost(cluster, OpCode::kSend, bytes, /*members=*/2);
  }
  MovementCost cost;
  if (same_node) {
    const NvLink& link = cluster.node().nvlink();
    cost.peer_bytes = bytes;
    cost.peer_bytes_per_s = PeerBytesPerSecond(cluster) * OneIfUnset(link.p2p_efficiency());
    cost.fixed_s = link.latency_s() + link.step_latency_s() +
                   HalfSeconds(link.half_bytes(), cost.peer_bytes_per_s);
  } else {
    const Nic& nic = cluster.node().nic();
    cost.nic_bytes = bytes;
    cost.nic_bytes_per_s =
        NodeLayout(cluster).nic_port_bytes_per_s() * OneIfUnset(nic.p2p_efficiency());
    cost.fixed_s = nic.latency_s() + nic.step_latency_s() +
                   HalfSeconds(nic.half_bytes(), cost.nic_bytes_per_s);
  }
  return cost;
}

MovementCost CopyCost(const Cluster& cluster, double bytes, bool h2d) {
  const Pcie& pcie = cluster.node().pcie();
  return {.fixed_s = pcie.latency_s(),
          .peer_bytes = bytes,
          .peer_bytes_per_s = h2d ? pcie.h2d_bytes_per_s() : pcie.d2h_bytes_per_s(),
          .nic_bytes = 0,
          .nic_bytes_per_s = 0};
}

}  // namespace twinstep
