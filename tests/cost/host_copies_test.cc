// What profiles say of copies of all GPUs of a host.
#include "sim/cost/host_copies.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/cost/graph_costs.h"
#include "tests/cost/cost_graph.h"
#include "tests/cost/test_clusters.h"

namespace twinstep {
namespace {

Profile Parse(const std::string& text) {
  Profile profile;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &profile));
  return profile;
}

// A microsecond of latency and 1 MB: an H2D has 50 GB/s alone, 40 beside one D2H, and 25 beside
// two; two H2D have 20 each.
constexpr const char* kHostCopies = R"(
    copies { direction: H2D bytes: 1000 alone_s: 1.02e-6 }
    copies { direction: D2H bytes: 1000 alone_s: 1.02e-6 }
    copies { direction: H2D bytes: 1000000 alone_s: 21e-6 both_ways_s: 25e-6 }
    copies { direction: D2H bytes: 1000000 alone_s: 21e-6 both_ways_s: 25e-6 }
    host_copies { up: 1 bytes: 1000000 h2d_s: 21e-6 }
    host_copies { down: 1 bytes: 1000000 d2h_s: 21e-6 }
    host_copies { up: 1 down: 1 bytes: 1000000 h2d_s: 26e-6 d2h_s: 21e-6 }
    host_copies { up: 2 bytes: 1000000 h2d_s: 21e-6 }
    host_copies { down: 2 bytes: 1000000 d2h_s: 21e-6 }
    host_copies { up: 1 down: 2 bytes: 1000000 h2d_s: 41e-6 d2h_s: 21e-6 }
    host_copies { up: 2 down: 1 bytes: 1000000 h2d_s: 26e-6 d2h_s: 21e-6 }
    host_copies { up: 2 down: 2 bytes: 1000000 h2d_s: 51e-6 d2h_s: 24e-6 }
    interference { copy_beside_compute: 1.8 h2d_beside_compute: 1.1 d2h_beside_compute: 1 }
    measured_on { node { gpus: 2 pcie { latency_s: 1e-6 } } })";

TEST(HostCopiesTest, CopiesOfAllGpusAreLimitedAsMeasured) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->set_gpus(2);
  Profile profile = Parse(kHostCopies);
  *profile.mutable_measured_on() = cluster;
  profile.mutable_measured_on()->mutable_node()->mutable_pcie()->set_latency_s(1e-6);
  CostGraph graph(2);
  const TaskId up = graph.Copy(0, true, 1'000'000), down = graph.Copy(1, false, 1'000'000);
  const Result<GraphCosts> result = ComputeCosts(graph.graph(), Model(), cluster, &profile);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const GraphCosts& costs = result.value();
  ASSERT_EQ(costs.flows.size(), 2u);
  for (const Link& link : costs.links) EXPECT_NE(link.kind, LinkKind::kHostCopies);
  // 75 us of 50: of what copies lose beside computation the rest is its own.
  EXPECT_DOUBLE_EQ(costs.interference.copy_beside_compute(), 1.8 / 1.5);
  EXPECT_EQ(costs.interference.h2d_beside_compute(), 1.1);
  const Flow& up_flow = costs.flows[costs.Of(up).flow_begin];
  const Flow& down_flow = costs.flows[costs.Of(down).flow_begin];
  EXPECT_TRUE(up_flow.to_gpu);
  EXPECT_FALSE(down_flow.to_gpu);
  EXPECT_EQ(up_flow.host, down_flow.host);
  EXPECT_EQ(up_flow.host_gpus, 1u);
  ASSERT_EQ(costs.host_copies.gpus, 2u);
  const auto rate = [&](bool h2d, std::uint32_t up_gpus, std::uint32_t down_gpus) {
    const HostCopyRates& rates = costs.host_copies;
    return (h2d ? rates.h2d_bytes_per_s : rates.d2h_bytes_per_s)[rates.StateOf(up_gpus, down_gpus)];
  };
  EXPECT_EQ(rate(true, 1, 0), HUGE_VAL);
  EXPECT_NEAR(rate(true, 1, 1), 40e9, 1);
  EXPECT_NEAR(rate(true, 1, 2), 25e9, 1);
  EXPECT_NEAR(rate(true, 2, 1), 40e9, 1);
  EXPECT_NEAR(rate(true, 2, 2), 20e9, 1);
  EXPECT_NEAR(rate(false, 1, 2), 50e9, 1);
  EXPECT_NEAR(rate(false, 2, 2), 1e6 / 23e-6, 1);
  EXPECT_EQ(rate(false, 1, 0), HUGE_VAL);
  // Nothing of that is there with one GPU a node, or without samples.
  cluster.mutable_node()->set_gpus(1);
  EXPECT_EQ(ComputeCosts(graph.graph(), Model(), cluster, &profile).value().host_copies.gpus, 0u);
  cluster.mutable_node()->set_gpus(2);
  EXPECT_EQ(ComputeCosts(graph.graph(), Model(), cluster, nullptr).value().host_copies.gpus, 0u);
}

TEST(HostCopiesTest, HostsOfOtherNumbersOfGpusAreInterpolated) {
  Profile profile = Parse(kHostCopies);
  // Measured with four in place of two: of two the time a byte is a third of the way.
  for (HostCopySample& sample : *profile.mutable_host_copies()) {
    if (sample.up() == 2) sample.set_up(4);
    if (sample.down() == 2) sample.set_down(4);
  }
  const auto rates_of = [&profile](std::int64_t gpus) {
    Cluster cluster = profile.measured_on();
    cluster.mutable_node()->set_gpus(gpus);
    return HostCopyRatesOf(profile, cluster);
  };
  HostCopyRates rates = rates_of(4);
  EXPECT_NEAR(rates.h2d_bytes_per_s[rates.StateOf(1, 2)], 1e6 / 30e-6, 1);  // 25 + 15 / 3.
  EXPECT_NEAR(rates.h2d_bytes_per_s[rates.StateOf(2, 2)], 1e6 / (25e-6 + 15e-6 * 2 / 9 + 25e-6 / 9),
              1);
  // Of eight that copy, half of them is as two of four.
  const HostCopyRates large = rates_of(8);
  EXPECT_EQ(large.h2d_bytes_per_s[large.StateOf(8, 8)], rates.h2d_bytes_per_s[rates.StateOf(4, 4)]);
  EXPECT_EQ(large.h2d_bytes_per_s[large.StateOf(1, 4)], rates.h2d_bytes_per_s[rates.StateOf(1, 2)]);
  // A state that was not measured limits nobody.
  profile.mutable_host_copies()->RemoveLast();
  rates = rates_of(4);
  EXPECT_EQ(rates.h2d_bytes_per_s[rates.StateOf(4, 4)], HUGE_VAL);
  EXPECT_NEAR(rates.h2d_bytes_per_s[rates.StateOf(1, 4)], 25e9, 1);
}

// As copies of one GPU do.
TEST(HostCopiesTest, WhatIfsOfFasterLinksAreFasterInCompany) {
  Profile profile = Parse(kHostCopies);
  Pcie* const measured = profile.mutable_measured_on()->mutable_node()->mutable_pcie();
  measured->set_h2d_bytes_per_s(50e9);
  measured->set_d2h_bytes_per_s(40e9);
  Cluster cluster = profile.measured_on();
  const HostCopyRates as_measured = HostCopyRatesOf(profile, cluster);
  cluster.mutable_node()->mutable_pcie()->set_h2d_bytes_per_s(100e9);
  cluster.mutable_node()->mutable_pcie()->set_d2h_bytes_per_s(20e9);
  const HostCopyRates rates = HostCopyRatesOf(profile, cluster);
  const std::size_t all = rates.StateOf(2, 2);
  EXPECT_NEAR(as_measured.h2d_bytes_per_s[all], 20e9, 1);
  EXPECT_DOUBLE_EQ(rates.h2d_bytes_per_s[all], 2 * as_measured.h2d_bytes_per_s[all]);
  EXPECT_DOUBLE_EQ(rates.d2h_bytes_per_s[all], as_measured.d2h_bytes_per_s[all] / 2);
  EXPECT_EQ(rates.h2d_bytes_per_s[rates.StateOf(1, 0)], HUGE_VAL);
}

// 21 us a MB alone, and 42 for 2 MB of all.
TEST(HostCopiesTest, SlowdownsAreOfABytesTime) {
  Profile profile = Parse(kHostCopies);
  for (HostCopySample& sample : *profile.mutable_host_copies()) {
    if (sample.up() + sample.down() != 2 || sample.up() == 1) continue;
    sample.set_bytes(2'000'000);
    if (sample.up() > 0) sample.set_h2d_s(2 * 21e-6);
    if (sample.down() > 0) sample.set_d2h_s(3 * 21e-6);
  }
  EXPECT_DOUBLE_EQ(SlowdownsOf(profile).h2d, 1);
  EXPECT_DOUBLE_EQ(SlowdownsOf(profile).d2h, 1.5);
  EXPECT_DOUBLE_EQ(SlowdownsOf(profile).both, 1.5);
}

}  // namespace
}  // namespace twinstep
