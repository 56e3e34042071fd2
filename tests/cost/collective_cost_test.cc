// Closed forms of collectives; against measured ones: calibration_test.cc.
#include "sim/cost/collective_cost.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "tests/cost/test_clusters.h"

namespace twinstep {
namespace {

GroupShape InNode(std::int64_t members) { return {members, 1, members, members}; }
GroupShape OverNodes(std::int64_t nodes, std::int64_t a_node) {
  return {nodes * a_node, nodes, a_node, a_node};
}

double Seconds(const Cluster& cluster, OpCode op, double bytes, const GroupShape& shape) {
  return CollectiveCost(cluster, op, bytes, shape).Seconds();
}

TEST(CollectiveTest, RingClosedForms) {
  const Cluster plain = PlainCluster();  // NVLink 100 GB/s, NIC 5 GB/s a GPU.
  EXPECT_DOUBLE_EQ(Seconds(plain, OpCode::kAllGather, 4e9, InNode(4)), 0.75 * 4e9 / 100e9);
  EXPECT_DOUBLE_EQ(Seconds(plain, OpCode::kReduceScatter, 4e9, InNode(4)), 0.75 * 4e9 / 100e9);
  EXPECT_DOUBLE_EQ(Seconds(plain, OpCode::kAllReduce, 4e9, InNode(4)), 1.5 * 4e9 / 100e9);
  EXPECT_DOUBLE_EQ(Seconds(plain, OpCode::kRingShift, 4e9, InNode(4)), 4e9 / 100e9);
  EXPECT_DOUBLE_EQ(SendCost(plain, 4e9, true).Seconds(), 4e9 / 100e9);
  EXPECT_DOUBLE_EQ(SendCost(plain, 4e9, false).Seconds(), 4e9 / 5e9);
  EXPECT_EQ(Seconds(plain, OpCode::kAllReduce, 4e9, InNode(1)), 0);
}

TEST(CollectiveTest, OverNodesEachMemberCarriesItsPartOverItsNic) {
  const Cluster plain = PlainCluster();
  // 2 nodes of 4: wire bytes 7/8 S, a quarter of them over the NIC.
  const MovementCost gather = CollectiveCost(plain, OpCode::kAllGather, 8e9, OverNodes(2, 4));
  EXPECT_DOUBLE_EQ(gather.nic_bytes, 7e9 / 4);
  EXPECT_DOUBLE_EQ(gather.peer_bytes, 7e9 * 3 / 4);
  EXPECT_DOUBLE_EQ(gather.Seconds(), 7e9 / 4 / 5e9);
  // One a node: no NVLink at all.
  const MovementCost alone = CollectiveCost(plain, OpCode::kAllReduce, 8e9, OverNodes(4, 1));
  EXPECT_DOUBLE_EQ(alone.nic_bytes, 1.5 * 8e9);
  EXPECT_EQ(alone.peer_bytes, 0);
  // Together the members of a node carry what crosses it: the wire bytes of one ring.
  EXPECT_DOUBLE_EQ(4 * gather.nic_bytes, 7e9);
}

TEST(CollectiveTest, LatencyGrowsWithSteps) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_nvlink()->set_latency_s(10e-6);
  cluster.mutable_node()->mutable_nvlink()->set_step_latency_s(1e-6);
  cluster.mutable_node()->mutable_nic()->set_latency_s(30e-6);
  cluster.mutable_node()->mutable_nic()->set_step_latency_s(5e-6);
  const auto fixed = [&](OpCode op, const GroupShape& shape) {
    return CollectiveCost(cluster, op, 0, shape).fixed_s;
  };
  EXPECT_DOUBLE_EQ(fixed(OpCode::kAllGather, InNode(4)), 13e-6);
  EXPECT_DOUBLE_EQ(fixed(OpCode::kAllReduce, InNode(4)), 16e-6);
  EXPECT_DOUBLE_EQ(fixed(OpCode::kRingShift, InNode(4)), 11e-6);
  EXPECT_DOUBLE_EQ(SendCost(cluster, 0, true).fixed_s, 11e-6);
  EXPECT_DOUBLE_EQ(SendCost(cluster, 0, false).fixed_s, 35e-6);
  // All-gather over 8 nodes of 4: 7 of its 31 steps go between nodes.
  EXPECT_DOUBLE_EQ(fixed(OpCode::kAllGather, OverNodes(8, 4)), 30e-6 + 24e-6 + 35e-6);
  // All-reduce: a tree up and down, log2(8) levels and the chain of a node.
  EXPECT_DOUBLE_EQ(fixed(OpCode::kAllReduce, OverNodes(8, 4)), 30e-6 + 6e-6 + 30e-6);
  EXPECT_DOUBLE_EQ(fixed(OpCode::kAllReduce, OverNodes(2, 1)), 30e-6 + 10e-6);
}

TEST(CollectiveTest, HalfBytesIsTheSizeOfHalfTheBandwidth) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_nvlink()->set_half_bytes(1e6);
  EXPECT_DOUBLE_EQ(SendCost(cluster, 1e6, true).Seconds(), 2 * 1e6 / 100e9);
  EXPECT_DOUBLE_EQ(SendCost(cluster, 9e6, true).Seconds(), 10e6 / 100e9);
}

TEST(CollectiveTest, KernelPassesLimitSmallGroups) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_nvlink()->set_collective_pass_bytes_per_s(120e9);
  // Two members: 2 passes for one transfer (60 GB/s), 3 for two (80 GB/s). Eight: the link's 100.
  EXPECT_DOUBLE_EQ(CollectiveCost(cluster, OpCode::kAllGather, 1e9, InNode(2)).peer_bytes_per_s,
                   60e9);
  EXPECT_DOUBLE_EQ(CollectiveCost(cluster, OpCode::kAllReduce, 1e9, InNode(2)).peer_bytes_per_s,
                   80e9);
  EXPECT_DOUBLE_EQ(CollectiveCost(cluster, OpCode::kAllReduce, 1e9, InNode(8)).peer_bytes_per_s,
                   100e9);
}

TEST(CollectiveTest, SwitchReducesWhereItIsFaster) {
  Cluster cluster = PlainCluster();
  NvLink& link = *cluster.mutable_node()->mutable_nvlink();
  link.set_nvls_efficiency(0.9);
  link.set_nvls_latency_s(1e-3);
  // S (1 + 1/8) at 90 GB/s against 1.75 S at 100 GB/s.
  const MovementCost large = CollectiveCost(cluster, OpCode::kAllReduce, 8e9, InNode(8));
  EXPECT_DOUBLE_EQ(large.peer_bytes, 9e9);
  EXPECT_DOUBLE_EQ(large.peer_bytes_per_s, 90e9);
  EXPECT_DOUBLE_EQ(large.fixed_s, 1e-3);
  EXPECT_EQ(CollectiveCost(cluster, OpCode::kAllReduce, 1e6, InNode(8)).fixed_s, 0);  // Ring.
  EXPECT_DOUBLE_EQ(CollectiveCost(cluster, OpCode::kAllReduce, 8e9, InNode(2)).peer_bytes, 8e9);
  EXPECT_DOUBLE_EQ(CollectiveCost(cluster, OpCode::kAllGather, 8e9, InNode(8)).peer_bytes, 7e9);
}

TEST(CollectiveTest, NcclReducesInTheSwitchFromASizeOn) {
  Cluster cluster = PlainCluster();
  NvLink& link = *cluster.mutable_node()->mutable_nvlink();
  link.set_nvls_efficiency(0.9);
  link.set_nvls_latency_s(1e-3);
  link.set_nvls_from_bytes(2e6);
  const auto fixed_s = [&](double bytes, std::int64_t gpus) {
    return CollectiveCost(cluster, OpCode::kAllReduce, bytes, InNode(gpus)).fixed_s;
  };
  EXPECT_EQ(fixed_s(1.9e6, 8), 0);
  EXPECT_EQ(fixed_s(2e6, 8), 1e-3);  // Though the ring were done sooner.
  EXPECT_EQ(fixed_s(2e6, 2), 0);     // 1.5 S at 90 GB/s against S at 100.
}

TEST(CollectiveTest, ShortMessagesTakeOtherProtocols) {
  Cluster cluster = PlainCluster();
  NvLink& link = *cluster.mutable_node()->mutable_nvlink();
  link.set_bytes_per_s(300e9);
  link.set_step_latency_s(3.4e-6);
  link.set_half_bytes(1e6);
  link.set_ll128_efficiency(0.6);
  link.set_ll_efficiency(0.1);
  const auto cost = [&](double bytes) {
    return CollectiveCost(cluster, OpCode::kAllReduce, bytes, InNode(8));
  };
  EXPECT_NEAR(cost(1e6).fixed_s, 14 * 0.47e-6, 1e-12);
  EXPECT_DOUBLE_EQ(cost(1e6).peer_bytes_per_s, 30e9);
  EXPECT_NEAR(cost(8e6).fixed_s, 14 * 1.9e-6, 1e-12);
  EXPECT_DOUBLE_EQ(cost(8e6).peer_bytes_per_s, 180e9);
  EXPECT_NEAR(cost(64e6).fixed_s, 14 * 3.4e-6 + 1e6 / 300e9, 1e-12);
  EXPECT_DOUBLE_EQ(cost(64e6).peer_bytes_per_s, 300e9);
  EXPECT_DOUBLE_EQ(CollectiveCost(cluster, OpCode::kRingShift, 1e6, InNode(8)).peer_bytes_per_s,
                   300e9);
}

TEST(CollectiveTest, TreesCarryAllReducesUpToASize) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_nic()->set_tree_efficiency(0.5);
  cluster.mutable_node()->mutable_nic()->set_tree_up_to_bytes(1e6);
  const auto rate = [&](OpCode op, double bytes) {
    return CollectiveCost(cluster, op, bytes, OverNodes(4, 4)).nic_bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(rate(OpCode::kAllReduce, 1e6), 2.5e9);
  EXPECT_DOUBLE_EQ(rate(OpCode::kAllReduce, 1.1e6), 5e9);
  EXPECT_DOUBLE_EQ(rate(OpCode::kAllGather, 1e6), 5e9);
}

TEST(CollectiveTest, RingsOfGpusOnSwitchesOfTheirOwnPassThroughTheHost) {
  Cluster cluster = PlainCluster();  // 4 GPUs a node.
  cluster.mutable_node()->mutable_nic()->set_through_host_bytes_per_s(8e9);
  const auto rate = [&](GroupShape shape, bool is_spread) {
    shape.is_spread_over_switches = is_spread;
    return CollectiveCost(cluster, OpCode::kAllReduce, 1e9, shape).nic_bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(rate(OverNodes(4, 2), true), 8e9 / 4);
  EXPECT_DOUBLE_EQ(rate(OverNodes(4, 4), false), 5e9);
  EXPECT_DOUBLE_EQ(rate(OverNodes(4, 1), true), 5e9);  // In and out of the same GPU.
}

TEST(CollectiveTest, WithoutNvlinkPeersUsePcie) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_nvlink()->set_bytes_per_s(0);
  cluster.mutable_node()->mutable_nvlink()->set_collective_efficiency(0.5);
  EXPECT_DOUBLE_EQ(Seconds(cluster, OpCode::kAllGather, 4e9, InNode(4)), 3e9 / (0.5 * 10e9));
  EXPECT_DOUBLE_EQ(SendCost(cluster, 4e9, true).Seconds(), 4e9 / 10e9);
}

TEST(CollectiveTest, CopiesAreLatencyAndBytesOverBandwidth) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_pcie()->set_latency_s(5e-6);
  EXPECT_DOUBLE_EQ(CopyCost(cluster, 2e9, true).Seconds(), 5e-6 + 2e9 / 20e9);
  EXPECT_DOUBLE_EQ(CopyCost(cluster, 2e9, false).Seconds(), 5e-6 + 2e9 / 10e9);
}

RC_GTEST_PROP(CollectiveProperty, EveryRingIsLatencyAndBytesOverBandwidth, ()) {
  // A straight line in bytes: B takes latency + B / bandwidth, on every cluster and layout.
  const Cluster cluster = *rc::gen::elementOf(
      std::vector<Cluster>{A100Node(), H800Cluster(), Rtx3090Node(), PlainCluster()});
  Cluster ring_only = cluster;
  ring_only.mutable_node()->mutable_nvlink()->set_nvls_efficiency(0);
  const bool has_nic = cluster.node().nic().count() > 0;
  const GroupShape shape =
      OverNodes(has_nic ? *rc::gen::inRange(1, 9) : 1, *rc::gen::inRange(2, 9));
  const OpCode op = *rc::gen::element(OpCode::kAllReduce, OpCode::kAllGather,
                                      OpCode::kReduceScatter, OpCode::kRingShift);
  const double bytes = *rc::gen::inRange(1, 1 << 30);
  const double zero = Seconds(ring_only, op, 0, shape);
  const double one = Seconds(ring_only, op, bytes, shape);
  const double two = Seconds(ring_only, op, 2 * bytes, shape);
  RC_ASSERT(std::abs(two - one - (one - zero)) <= 1e-12 * two);
  RC_ASSERT(zero > 0 || cluster.name() == "plain");
  // The switch only ever helps.
  RC_ASSERT(Seconds(cluster, op, bytes, shape) <= one);
}

RC_GTEST_PROP(CollectiveProperty, AllReduceIsReduceScatterAndAllGatherInBytes, ()) {
  const Cluster plain = PlainCluster();
  const GroupShape shape = OverNodes(*rc::gen::inRange(1, 9), *rc::gen::inRange(1, 9));
  const double bytes = *rc::gen::inRange(1, 1 << 30);
  const MovementCost reduce = CollectiveCost(plain, OpCode::kAllReduce, bytes, shape);
  const MovementCost gather = CollectiveCost(plain, OpCode::kAllGather, bytes, shape);
  const MovementCost scatter = CollectiveCost(plain, OpCode::kReduceScatter, bytes, shape);
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); };
  RC_ASSERT(near(reduce.peer_bytes, gather.peer_bytes + scatter.peer_bytes));
  RC_ASSERT(near(reduce.nic_bytes, gather.nic_bytes + scatter.nic_bytes));
}

}  // namespace
}  // namespace twinstep
