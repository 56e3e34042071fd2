#include "sim/plan/placement.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "sim/plan/node_layout.h"

namespace twinstep {
namespace {

ResolvedPlan PlanOf(std::int64_t t, std::int64_t c, std::int64_t p, std::int64_t d,
                    const std::string& order = "tp-cp-dp-pp") {
  ResolvedPlan plan;
  plan.t = t;
  plan.c = c;
  plan.p = p;
  plan.d = d;
  plan.gpus = t * c * p * d;
  plan.rank_order = order;
  return plan;
}

Cluster ClusterOf(std::int64_t gpus_per_node, std::int64_t nics = 8, std::int64_t per_uplink = 1) {
  Cluster cluster;
  cluster.mutable_node()->set_gpus(gpus_per_node);
  cluster.mutable_node()->mutable_nic()->set_count(nics);
  cluster.mutable_node()->mutable_nic()->set_bytes_per_s(12.5e9);
  cluster.mutable_node()->mutable_pcie()->set_gpus_per_uplink(per_uplink);
  return cluster;
}

RankClasses ClassesOf(const ResolvedPlan& plan, const Cluster& cluster) {
  return SymmetryClasses(Placement(plan, cluster.node().gpus()), plan, cluster);
}

TEST(PlacementTest, CoordinatesFollowTheRankOrder) {
  const Placement placement(PlanOf(2, 3, 4, 5), 8);
  EXPECT_EQ(placement.gpus(), 120);
  EXPECT_EQ(placement.CoordinatesOf(0), (Coordinates{0, 0, 0, 0}));
  EXPECT_EQ(placement.CoordinatesOf(1), (Coordinates{.tp = 1}));
  EXPECT_EQ(placement.CoordinatesOf(2), (Coordinates{.cp = 1}));
  EXPECT_EQ(placement.CoordinatesOf(6), (Coordinates{.dp = 1}));
  EXPECT_EQ(placement.CoordinatesOf(30), (Coordinates{.pp = 1}));
  EXPECT_EQ(placement.CoordinatesOf(119), (Coordinates{1, 2, 4, 3}));

  const Placement reversed(PlanOf(2, 3, 4, 5, "pp-dp-cp-tp"), 8);
  EXPECT_EQ(reversed.CoordinatesOf(1), (Coordinates{.pp = 1}));
  EXPECT_EQ(reversed.CoordinatesOf(4), (Coordinates{.dp = 1}));
  EXPECT_EQ(reversed.CoordinatesOf(20), (Coordinates{.cp = 1}));
  EXPECT_EQ(reversed.CoordinatesOf(60), (Coordinates{.tp = 1}));
}

TEST(PlacementTest, IncompleteOrderPutsTheRestOutside) {
  const Placement placement(PlanOf(2, 1, 4, 3, "pp-nonsense-pp"), 8);
  EXPECT_EQ(placement.CoordinatesOf(4), (Coordinates{.tp = 1}));
  EXPECT_EQ(placement.CoordinatesOf(8), (Coordinates{.dp = 1}));
}

RC_GTEST_PROP(PlacementProperty, RankAndCoordinatesAreInverse, ()) {
  std::vector<std::string> names = {"tp", "cp", "dp", "pp"};
  std::sort(names.begin(), names.end());
  for (int i = *rc::gen::inRange(0, 24); i > 0; --i) {
    std::next_permutation(names.begin(), names.end());
  }
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 6); };
  const ResolvedPlan plan = PlanOf(size(), size(), size(), size(),
                                   names[0] + "-" + names[1] + "-" + names[2] + "-" + names[3]);
  const Placement placement(plan, *rc::gen::inRange<std::int64_t>(1, 9));
  std::set<std::int64_t> seen;
  for (std::int64_t rank = 0; rank < placement.gpus(); ++rank) {
    const Coordinates at = placement.CoordinatesOf(rank);
    RC_ASSERT(at.tp < plan.t && at.cp < plan.c && at.dp < plan.d && at.pp < plan.p);
    RC_ASSERT(placement.RankOf(at) == rank);
  }
}

TEST(PlacementTest, GroupsInGroupOrder) {
  const Placement placement(PlanOf(2, 2, 2, 3), 8);
  using Kind = Placement::GroupKind;
  using Ranks = std::vector<std::uint32_t>;
  EXPECT_EQ(placement.GroupOf(7, Kind::kTp), (Ranks{6, 7}));
  EXPECT_EQ(placement.GroupOf(7, Kind::kCp), (Ranks{5, 7}));
  EXPECT_EQ(placement.GroupOf(7, Kind::kDp), (Ranks{3, 7, 11}));
  EXPECT_EQ(placement.GroupOf(7, Kind::kDpCp), (Ranks{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(placement.GroupOf(7, Kind::kEmbedding), (Ranks{7, 19}));
  EXPECT_EQ(placement.GroupOf(0, Kind::kWorld).size(), 24u);
  EXPECT_EQ(Placement(PlanOf(2, 1, 1, 1), 8).GroupOf(1, Kind::kEmbedding), (Ranks{1}));
}

TEST(PlacementTest, DpCpIsDpOuterCpInnerInEveryRankOrder) {
  const Placement placement(PlanOf(1, 2, 1, 3, "dp-cp-tp-pp"), 8);
  EXPECT_EQ(placement.GroupOf(0, Placement::GroupKind::kDpCp),
            (std::vector<std::uint32_t>{0, 3, 1, 4, 2, 5}));
}

TEST(PlacementTest, Nodes) {
  const Placement placement(PlanOf(4, 1, 5, 5), 8);
  EXPECT_EQ(placement.NodeOf(99), 12);
  EXPECT_EQ(placement.LocalIndexOf(99), 3);
}

TEST(NodeLayoutTest, NicPortsAndUplinks) {
  const NodeLayout four(ClusterOf(8, 4, 2));
  EXPECT_EQ(four.nic_ports(), 4);
  EXPECT_EQ(four.NicPortOf(0), 0);
  EXPECT_EQ(four.NicPortOf(1), 0);
  EXPECT_EQ(four.NicPortOf(7), 3);
  EXPECT_EQ(four.nic_port_bytes_per_s(), 12.5e9);
  EXPECT_EQ(four.UplinkOf(5), 2);
  // Two NICs a GPU are one port of twice the bandwidth.
  const NodeLayout two_each(ClusterOf(4, 8));
  EXPECT_EQ(two_each.nic_ports(), 4);
  EXPECT_EQ(two_each.nic_port_bytes_per_s(), 25e9);
  // Nothing said: one GPU, no NIC.
  const NodeLayout empty((Cluster()));
  EXPECT_EQ(empty.gpus_per_node(), 1);
  EXPECT_EQ(empty.nic_port_bytes_per_s(), 0);
}

TEST(SymmetryClassesTest, Llama65BOn256IsOneClassAStage) {
  const ResolvedPlan plan = PlanOf(2, 2, 8, 8);
  const RankClasses classes = ClassesOf(plan, ClusterOf(8));
  EXPECT_EQ(classes.size, std::vector<std::uint32_t>(8, 32));
  EXPECT_EQ(classes.representative,
            (std::vector<std::uint32_t>{0, 32, 64, 96, 128, 160, 192, 224}));
  const Placement placement(plan, 8);
  for (std::int64_t rank = 0; rank < 256; ++rank) {
    EXPECT_EQ(classes.class_of[static_cast<std::size_t>(rank)], placement.CoordinatesOf(rank).pp);
  }
}

TEST(SymmetryClassesTest, StagesThatStraddleNodesSplit) {
  // tp 4, dp 5, pp 5 on nodes of 8: a stage is 20 GPUs = 2.5 nodes. Stage 0 shares its half node
  // with stage 1, stage 2 with stage 3's first half..., and 100 GPUs leave the last node half
  // empty.
  const ResolvedPlan plan = PlanOf(4, 1, 5, 5);
  const RankClasses classes = ClassesOf(plan, ClusterOf(8));
  const Placement placement(plan, 8);
  // Members of a tensor-parallel group share all: never split.
  for (std::size_t rank = 0; rank < 100; ++rank) {
    EXPECT_EQ(classes.class_of[rank], classes.class_of[rank / 4 * 4]);
  }
  // In stage 0, the last replica (ranks 16-19) shares its node with stage 1; the others do not.
  EXPECT_NE(classes.class_of[16], classes.class_of[0]);
  EXPECT_NE(classes.class_of[16], classes.class_of[8]);
  // Its neighbour of stage 1 in the same node likewise.
  EXPECT_NE(classes.class_of[20], classes.class_of[24]);
  // Ranks 96-99 are alone in the last node.
  EXPECT_NE(classes.class_of[96], classes.class_of[88]);
  EXPECT_GT(classes.size.size(), 5u);
  EXPECT_LE(classes.size.size(), 25u);
}

TEST(SymmetryClassesTest, GroupsThatStraddleNodesDifferFromThoseThatDoNot) {
  // tp 5 on nodes of 8: group 0 lies in node 0, group 1 straddles nodes 0 and 1. All groups, nodes
  // and stages have the same number of members, so only the cells tell them apart.
  const RankClasses classes = ClassesOf(PlanOf(5, 1, 1, 8), ClusterOf(8));
  EXPECT_NE(classes.class_of[0], classes.class_of[5]);
  // Group 1 = {5, 6, 7 | 8, 9}: three members in one node, two in the other.
  EXPECT_NE(classes.class_of[5], classes.class_of[8]);
  EXPECT_NE(classes.class_of[6], classes.class_of[9]);
}

TEST(SymmetryClassesTest, SharedNicPortsAndUplinksSplit) {
  // 3 of 4 GPUs in the node: GPUs 0 and 1 share a port, GPU 2 has one alone.
  const ResolvedPlan plan = PlanOf(1, 1, 1, 3);
  EXPECT_EQ(ClassesOf(plan, ClusterOf(4, 4)).size.size(), 1u);
  EXPECT_EQ(ClassesOf(plan, ClusterOf(4, 2)).class_of, (std::vector<std::uint32_t>{0, 0, 1}));
  EXPECT_EQ(ClassesOf(plan, ClusterOf(4, 4, 2)).class_of, (std::vector<std::uint32_t>{0, 0, 1}));
}

TEST(SymmetryClassesTest, OneGpu) {
  const RankClasses classes = ClassesOf(PlanOf(1, 1, 1, 1), ClusterOf(1, 0));
  EXPECT_EQ(classes.class_of, std::vector<std::uint32_t>{0});
  EXPECT_EQ(classes.size, std::vector<std::uint32_t>{1});
}

// What a rank of a class sees through each of its edges, counted by class: the definition of an
// equitable partition, written without hashes.
std::vector<std::map<std::vector<std::uint32_t>, int>> View(const Placement& placement,
                                                            const ResolvedPlan& plan,
                                                            const NodeLayout& layout,
                                                            const RankClasses& classes,
                                                            std::int64_t rank) {
  std::vector<std::map<std::vector<std::uint32_t>, int>> view;
  const auto sorted_classes = [&](const std::vector<std::uint32_t>& ranks) {
    std::vector<std::uint32_t> result;
    for (const std::uint32_t member : ranks) result.push_back(classes.class_of[member]);
    std::sort(result.begin(), result.end());
    return result;
  };
  const auto see = [&](const std::vector<std::uint32_t>& ranks) {
    view.push_back({{sorted_classes(ranks), 1}});
  };
  const auto uplink = [&](std::int64_t of) { return layout.UplinkOf(placement.LocalIndexOf(of)); };
  // Resources.
  std::vector<std::uint32_t> node, port, below;
  for (std::int64_t other = 0; other < placement.gpus(); ++other) {
    if (placement.NodeOf(other) != placement.NodeOf(rank)) continue;
    const auto id = static_cast<std::uint32_t>(other);
    node.push_back(id);
    if (layout.NicPortOf(placement.LocalIndexOf(other)) ==
        layout.NicPortOf(placement.LocalIndexOf(rank))) {
      port.push_back(id);
    }
    if (uplink(other) == uplink(rank)) below.push_back(id);
  }
  see(node);
  see(port);
  see(below);
  // Groups: the own cell, and the multiset of all cells, for nodes and for uplinks.
  using Kind = Placement::GroupKind;
  for (const Kind kind : {Kind::kTp, Kind::kCp, Kind::kDp, Kind::kDpCp}) {
    for (const bool by_uplink : {false, true}) {
      std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::uint32_t>> cells;
      const auto cell = [&](std::int64_t of) {
        return std::pair{placement.NodeOf(of), by_uplink ? uplink(of) : 0};
      };
      for (const std::uint32_t member : placement.GroupOf(rank, kind)) {
        cells[cell(member)].push_back(member);
      }
      see(cells[cell(rank)]);
      std::map<std::vector<std::uint32_t>, int> all;
      for (const auto& [where, members] : cells) ++all[sorted_classes(members)];
      view.push_back(all);
    }
  }
  // Pipeline neighbours, the wrap from last to first included, and how near they lie.
  for (const std::int64_t step : {std::int64_t{1}, plan.p - 1}) {
    Coordinates at = placement.CoordinatesOf(rank);
    at.pp = (at.pp + step) % plan.p;
    const std::int64_t peer = placement.RankOf(at);
    const bool same_node = placement.NodeOf(peer) == placement.NodeOf(rank);
    const std::uint32_t near = !same_node ? 0u : uplink(peer) == uplink(rank) ? 2u : 1u;
    view.push_back({{{classes.class_of[static_cast<std::size_t>(peer)], near}, 1}});
  }
  return view;
}

RC_GTEST_PROP(SymmetryClassesProperty, PartitionIsEquitable, ()) {
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 5); };
  const ResolvedPlan plan =
      PlanOf(size(), size(), size(), size(),
             *rc::gen::element<std::string>("tp-cp-dp-pp", "pp-tp-cp-dp", "dp-tp-pp-cp"));
  const std::int64_t gpus_per_node = *rc::gen::inRange<std::int64_t>(1, 9);
  const Cluster cluster = ClusterOf(gpus_per_node, *rc::gen::inRange<std::int64_t>(0, 9),
                                    *rc::gen::inRange<std::int64_t>(0, 5));
  const Placement placement(plan, gpus_per_node);
  const RankClasses classes = SymmetryClasses(placement, plan, cluster);
  const NodeLayout layout(cluster);

  std::vector<std::uint32_t> count(classes.size.size());
  for (std::int64_t rank = 0; rank < placement.gpus(); ++rank) {
    const std::uint32_t own = classes.class_of[static_cast<std::size_t>(rank)];
    const std::uint32_t representative = classes.representative[own];
    if (count[own]++ == 0) RC_ASSERT(representative == rank);  // The lowest rank.
    RC_ASSERT(placement.CoordinatesOf(rank).pp == placement.CoordinatesOf(representative).pp);
    RC_ASSERT(View(placement, plan, layout, classes, rank) ==
              View(placement, plan, layout, classes, representative));
  }
  RC_ASSERT(count == classes.size);
}

TEST(SymmetryClassesTest, FastFor4096) {
  // A stage of 4 x 7 x 9 = 252 GPUs straddles nodes and leaves every stage different.
  const ResolvedPlan plan = PlanOf(4, 7, 16, 9);
  const Cluster cluster = ClusterOf(8, 4, 2);
  const Placement placement(plan, 8);
  const auto begin = std::chrono::steady_clock::now();
  const RankClasses classes = SymmetryClasses(placement, plan, cluster);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("milliseconds", std::to_string(took.count() * 1e3));
  EXPECT_GT(classes.size.size(), 16u);
  // The bar is 50 ms; the margin is for a machine that does other work too.
  EXPECT_LT(took.count(), 0.5);
}

}  // namespace
}  // namespace twinstep
