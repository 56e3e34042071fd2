// A collective or send alone: how long it takes to start, which bytes each member then moves over
// which level, and at most how fast. Ring algorithms, as NCCL's:
//
//   wire bytes a rank   all-gather, reduce-scatter  S (n - 1) / n       n - 1 steps
//                       all-reduce                  2 S (n - 1) / n     2 (n - 1) steps
//                       ring shift                  S                   1 step
//   time                latency + steps x step latency + half_bytes / rate + wire bytes / rate
//
// Inside a node short messages may use NCCL's other protocols, at other latency and bandwidth
// (ring_protocol.h).
//
// A ring over nodes has a channel for each member of a node and crosses to the next node at
// another member on each channel: with k members in the node a rank sends 1 / k of its wire bytes
// over its NIC and the rest over NVLink, both at once. Small all-reduces between nodes follow the
// double binary tree (log2 of the nodes, same wire bytes; Nic.tree_*). Where no two members in a
// node share a PCIe switch, the ring may have to leave it through the host
// (Nic.through_host_bytes_per_s). Inside an NVSwitch an all-reduce may
// run in the switch (NvLink.nvls_*).
//
// With worker threads (Node.workers, the CPU backend) one thread does the work of all members in
// memory: what it reads and writes, at gpu.memory_bytes_per_s. All-reduce, all-gather and ring
// shift move 2 n S, reduce-scatter (n + 1) S, a message 2 S; the cost is that of the whole
// rendezvous.
//
// Sources: NCCL's documentation of bus bandwidth
// (nccl-tests doc/PERFORMANCE.md), hw_specs/SOURCES.md, M6 and M9.
#pragma once

#include <cstdint>

#include "hw_specs/cluster.pb.h"
#include "sim/graph/op.h"

namespace twinstep {

// How a communicator lies on nodes, seen from one member.
struct GroupShape {
  std::int64_t members = 1;
  std::int64_t nodes = 1;
  std::int64_t own_node_members = 1;      // On the member's own node.
  std::int64_t largest_node_members = 1;  // On the node with most.
  // On the member's own node every member is below a PCIe switch of its own.
  bool is_spread_over_switches = false;

  bool operator==(const GroupShape&) const = default;
};

struct MovementCost {
  double fixed_s = 0;
  // Bytes a rank over the node's own interconnect (NVLink or PCIe), and over its NIC.
  double peer_bytes = 0, peer_bytes_per_s = 0;
  double nic_bytes = 0, nic_bytes_per_s = 0;
  double busy_slowdown = 0;   // As TaskCost::busy_slowdown, where measured; 0 = not.
  double beside_compute = 0;  // As TaskCost::beside_compute, where measured; 0 = not.
  bool is_measured = false;   // From a profile, not the formulas here.
  bool takes_turns = false;   // CollectiveSample.takes_turns, of what was measured.

  // Longest of the two flows, unshared.
  double FlowSeconds() const;
  double Seconds() const { return fixed_s + FlowSeconds(); }
};

// `op` kAllReduce, kAllGather, kReduceScatter or kRingShift of `bytes` (the full tensor).
MovementCost CollectiveCost(const Cluster& cluster, OpCode op, double bytes,
                            const GroupShape& shape);

// One send of `bytes`.
MovementCost SendCost(const Cluster& cluster, double bytes, bool same_node);

// A copy between GPU and pinned host memory; `h2d` or the other direction. `peer_bytes` are the
// bytes on the PCIe link.
MovementCost CopyCost(const Cluster& cluster, double bytes, bool h2d);

// Bandwidth of a member's link to its peers in the node, one direction: NVLink, else PCIe's slower
// direction.
double PeerBytesPerSecond(const Cluster& cluster);

}  // namespace twinstep
