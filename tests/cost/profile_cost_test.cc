// Measured tables: exact, between, beyond, and on a changed cluster.
#include "sim/cost/profile_cost.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/cost/profile_pairs.h"
#include "tests/cost/cost_graph.h"
#include "tests/cost/test_clusters.h"
#include "tests/graph/graph_builder.h"

namespace twinstep {
namespace {

constexpr int kGradientBytes = 4;

Profile Parse(const std::string& text) {
  Profile profile;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &profile));
  return profile;
}

OpShape Collective(OpCode op, std::int64_t bytes) {
  return {.op = op, .dtype = Dtype::kFp32, .dims = {bytes}};
}

OpShape Gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.op = OpCode::kGemmForward, .dims = {m, n, k}};
}

std::string Sample(std::int64_t m, std::int64_t n, std::int64_t k, double seconds) {
  return "operators { op: 'gemm_forward' dtype: 'bf16' dims: " + std::to_string(m) +
         " dims: " + std::to_string(n) + " dims: " + std::to_string(k) +
         " median_s: " + std::to_string(seconds) + " } ";
}

MeasuredOperators Operators(const Profile& profile, const Cluster& cluster) {
  return MeasuredOperators(profile, OperatorRoofline(cluster, kGradientBytes), kGradientBytes);
}

// Of a task's first flow, those over links of a kind.
std::vector<RouteHop> HopsOf(const GraphCosts& costs, TaskId id, LinkKind kind) {
  std::vector<RouteHop> hops;
  const Flow& flow = costs.flows[costs.Of(id).flow_begin];
  for (std::uint32_t i = 0; i < flow.hop_count; ++i) {
    const RouteHop& hop = costs.hops[flow.hop_begin + i];
    if (costs.links[hop.link].kind == kind) hops.push_back(hop);
  }
  return hops;
}

// What a byte of a copy takes of the cores' traffic.
double HostComputeShare(const GraphCosts& costs, TaskId copy) {
  double share = 0;
  for (const RouteHop& hop : HopsOf(costs, copy, LinkKind::kHostCompute)) share += hop.multiplicity;
  return share;
}

double Roofline(const Cluster& cluster, const OpShape& shape) {
  return OperatorRoofline(cluster, kGradientBytes).Of(shape).seconds;
}

TEST(MeasuredOperatorsTest, ExactShapeIsTheMedianItself) {
  const Cluster cluster = H200Node();
  const MeasuredOperators operators = Operators(Parse(Sample(64, 128, 256, 0.125)), cluster);
  EXPECT_EQ(operators.Of(Gemm(64, 128, 256)).seconds, 0.125);
  EXPECT_FALSE(operators.Of(Gemm(64, 128, 256)).extrapolated);
  // Other dtype, flags or op: never measured.
  OpShape fp16 = Gemm(64, 128, 256);
  fp16.dtype = Dtype::kFp16;
  OpShape biased = Gemm(64, 128, 256);
  biased.flags = kHasBias;
  OpShape dgrad = Gemm(64, 128, 256);
  dgrad.op = OpCode::kGemmDgrad;
  for (const OpShape& shape : {fp16, biased, dgrad}) {
    EXPECT_EQ(operators.Of(shape).seconds, Roofline(cluster, shape));
    EXPECT_TRUE(operators.Of(shape).extrapolated);
  }
}

TEST(MeasuredOperatorsTest, BetweenNeighboursTheCorrectionIsALineInLogShape) {
  const Cluster cluster = PlainCluster();
  const double low = Roofline(cluster, Gemm(1023, 4096, 4096));
  const double high = Roofline(cluster, Gemm(4095, 4096, 4096));
  // Measured 1.5 and 6 times the roofline; half way in log (m + 1), the factor is 3.
  Profile profile = Parse(Sample(1023, 4096, 4096, 1) + Sample(4095, 4096, 4096, 1));
  profile.mutable_operators(0)->set_median_s(1.5 * low);
  profile.mutable_operators(1)->set_median_s(6 * high);
  const MeasuredOperators operators = Operators(profile, cluster);
  const auto between = operators.Of(Gemm(2047, 4096, 4096));
  EXPECT_NEAR(between.seconds / Roofline(cluster, Gemm(2047, 4096, 4096)), 3, 1e-9);
  EXPECT_FALSE(between.extrapolated);
  // Beyond: nearer to the near neighbour, and marked.
  const auto beyond = operators.Of(Gemm(8191, 4096, 4096));
  EXPECT_TRUE(beyond.extrapolated);
  const double factor = beyond.seconds / Roofline(cluster, Gemm(8191, 4096, 4096));
  EXPECT_GT(factor, 3);
  EXPECT_LT(factor, 6);
  EXPECT_TRUE(operators.Of(Gemm(2047, 4096, 64)).extrapolated);
}

TEST(MeasuredOperatorsTest, ChangedFieldScalesNewOverOld) {
  const Cluster cluster = PlainCluster();
  Profile profile = Parse(Sample(4096, 4096, 4096, 0.25));
  *profile.mutable_measured_on() = cluster;
  EXPECT_EQ(Operators(profile, cluster).Of(Gemm(4096, 4096, 4096)).seconds, 0.25);
  EXPECT_FALSE(Operators(profile, cluster).Of(Gemm(4096, 4096, 4096)).extrapolated);
  Cluster faster = cluster;
  faster.mutable_gpu()->set_bf16_flops_per_s(2 * cluster.gpu().bf16_flops_per_s());
  const auto scaled = Operators(profile, faster).Of(Gemm(4096, 4096, 4096));
  EXPECT_DOUBLE_EQ(scaled.seconds, 0.125);
  EXPECT_TRUE(scaled.extrapolated);
  // A field that the operator does not feel changes nothing.
  Cluster other_link = cluster;
  other_link.mutable_node()->mutable_pcie()->set_h2d_bytes_per_s(1);
  EXPECT_FALSE(Operators(profile, other_link).Of(Gemm(4096, 4096, 4096)).extrapolated);
}

TEST(MeasuredOperatorsTest, UnusableSamplesAreLeftOut) {
  const Cluster cluster = PlainCluster();
  const MeasuredOperators operators =
      Operators(Parse("operators { op: 'no_such_op' dtype: 'bf16' dims: 1 median_s: 1 }"
                      "operators { op: 'gemm_forward' dtype: 'bf17' dims: 1 median_s: 1 }"
                      "operators { op: 'gemm_forward' dtype: 'bf16' dims: 1 median_s: 0 }"
                      "operators { op: 'add' dtype: 'bf16' dims: [1,2,3,4,5,6,7,8] median_s: 1 }"),
                cluster);
  EXPECT_EQ(operators.Of(Gemm(8, 8, 8)).seconds, Roofline(cluster, Gemm(8, 8, 8)));
}

RC_GTEST_PROP(MeasuredOperatorsProperty, CorrectionStaysBetweenTheSamples, ()) {
  const Cluster cluster = H200Node();
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 10000); };
  Profile profile;
  double low = HUGE_VAL, high = 0;
  for (int i = *rc::gen::inRange(1, 8); i > 0; --i) {
    const OpShape shape = Gemm(size(), size(), size());
    const double factor = *rc::gen::inRange(50, 200) / 100.0;
    low = std::min(low, factor);
    high = std::max(high, factor);
    OperatorSample& sample = *profile.add_operators();
    sample.set_op("gemm_forward");
    sample.set_dtype("bf16");
    for (int axis = 0; axis < 3; ++axis) {
      sample.add_dims(shape.dims[static_cast<std::size_t>(axis)]);
    }
    sample.set_median_s(factor * Roofline(cluster, shape));
  }
  const OpShape asked = Gemm(size(), size(), size());
  const double factor = Operators(profile, cluster).Of(asked).seconds / Roofline(cluster, asked);
  RC_ASSERT(factor >= low * (1 - 1e-9) && factor <= high * (1 + 1e-9));
}

// Products of 16 rows and more, whose kernels let others in 1, 2 and 9 us before they end; the
// fourth was not measured so, nor what is between two of them.
TEST(MeasuredOperatorsTest, TailsOfAnOperatorStandForThoseNotMeasured) {
  const Cluster cluster = PlainCluster();
  Profile profile = Parse(Sample(16, 8, 8, 10e-6) + Sample(32, 8, 8, 20e-6) +
                          Sample(64, 8, 8, 20e-6) + Sample(256, 8, 8, 40e-6));
  profile.mutable_operators(0)->set_lets_in_s(9e-6);
  profile.mutable_operators(1)->set_lets_in_s(18e-6);
  profile.mutable_operators(2)->set_lets_in_s(11e-6);
  const auto tail_s = [&](const OpShape& shape) {
    const MeasuredOperators::Estimate estimate = Operators(profile, cluster).Of(shape);
    return estimate.seconds * (1 - estimate.lets_in);
  };
  EXPECT_NEAR(tail_s(Gemm(16, 8, 8)), 1e-6, 1e-15);
  EXPECT_NEAR(tail_s(Gemm(64, 8, 8)), 9e-6, 1e-15);
  EXPECT_NEAR(tail_s(Gemm(256, 8, 8)), 2e-6, 1e-15);
  EXPECT_NEAR(tail_s(Gemm(128, 8, 8)), 2e-6, 1e-15);
  // It has begun when it lets in; and of another operator nothing is known.
  profile.mutable_operators(3)->set_median_s(2e-6);
  EXPECT_NEAR(tail_s(Gemm(256, 8, 8)), 0.99 * 2e-6, 1e-15);
  OpShape other = Gemm(256, 8, 8);
  other.op = OpCode::kGemmDgrad;
  EXPECT_EQ(Operators(profile, cluster).Of(other).lets_in, 0);
}

// 1 kB in 10 us, 1 MB in 110 us, 2 MB in 410 us.
const char kCopies[] = R"(
    copies { direction: H2D bytes: 2000000 alone_s: 410e-6 both_ways_s: 500e-6 }
    copies { direction: H2D bytes: 1000 alone_s: 10e-6 }
    copies { direction: H2D bytes: 1000000 alone_s: 110e-6 })";

TEST(MeasuredMovementsTest, CopiesFollowLinesBetweenTheSizes) {
  const Cluster cluster = PlainCluster();
  const MeasuredMovements movements(Parse(kCopies), cluster);
  const auto seconds = [&](double bytes, bool* extrapolated) {
    MovementCost cost = CopyCost(cluster, bytes, true);
    *extrapolated = movements.Copy(bytes, true, &cost);
    return cost.Seconds();
  };
  bool extrapolated = true;
  for (const auto& [bytes, expected] : {std::pair{1000.0, 10e-6}, {1e6, 110e-6}, {2e6, 410e-6}}) {
    EXPECT_NEAR(seconds(bytes, &extrapolated), expected, 1e-12);
    EXPECT_FALSE(extrapolated);
  }
  EXPECT_NEAR(seconds(500500, &extrapolated), 60e-6, 1e-12);
  EXPECT_FALSE(extrapolated);
  EXPECT_NEAR(seconds(3e6, &extrapolated), 710e-6, 1e-12);
  EXPECT_TRUE(extrapolated);
  EXPECT_NEAR(seconds(10, &extrapolated), 10e-6, 1e-12);
  EXPECT_TRUE(extrapolated);
  // The other direction was not measured.
  MovementCost down = CopyCost(cluster, 1e6, false);
  EXPECT_TRUE(movements.Copy(1e6, false, &down));
  EXPECT_EQ(down.Seconds(), CopyCost(cluster, 1e6, false).Seconds());
}

TEST(MeasuredMovementsTest, OneSizeKeepsTheModelsLatency) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_pcie()->set_latency_s(10e-6);
  const MeasuredMovements movements(
      Parse("copies { direction: D2H bytes: 1000000 alone_s: 210e-6 }"), cluster);
  MovementCost cost = CopyCost(cluster, 500000, false);
  EXPECT_TRUE(movements.Copy(500000, false, &cost));
  EXPECT_DOUBLE_EQ(cost.fixed_s, 10e-6);
  EXPECT_NEAR(cost.Seconds(), 110e-6, 1e-12);
}

TEST(MeasuredMovementsTest, CollectivesByGroupAndSize) {
  const Cluster cluster = PlainCluster();
  const MeasuredMovements movements(Parse(R"(
      collectives { op: "all_reduce" group_size: 8 ranks_per_node: 4 bytes: 1000 median_s: 30e-6 }
      collectives { op: "all_reduce" group_size: 8 ranks_per_node: 4 bytes: 8001000
                    median_s: 5030e-6 }
      collectives { op: "send" group_size: 2 ranks_per_node: 2 bytes: 1000 median_s: 20e-6 }
      collectives { op: "send" group_size: 2 ranks_per_node: 2 bytes: 2001000 median_s: 70e-6 })"),
                                    cluster);
  const GroupShape eight{8, 2, 4, 4};
  MovementCost cost = CollectiveCost(cluster, OpCode::kAllReduce, 4001000, eight);
  const MovementCost model = cost;
  EXPECT_FALSE(movements.Collective(Collective(OpCode::kAllReduce, 4001000), eight, &cost));
  EXPECT_NEAR(cost.Seconds(), 2530e-6, 1e-12);
  // The bytes on the wires stay the algorithm's; only rates and latency are measured.
  EXPECT_EQ(cost.nic_bytes, model.nic_bytes);
  EXPECT_EQ(cost.peer_bytes, model.peer_bytes);
  EXPECT_TRUE(movements.Collective(Collective(OpCode::kAllReduce, 4001000), {8, 1, 8, 8}, &cost));
  EXPECT_TRUE(movements.Collective(Collective(OpCode::kAllGather, 4001000), eight, &cost));

  MovementCost send = SendCost(cluster, 1001000, true);
  EXPECT_FALSE(movements.Send(1001000, true, &send));
  EXPECT_NEAR(send.Seconds(), 45e-6, 1e-12);
  EXPECT_TRUE(movements.Send(1001000, false, &send));
}

// Engines slow flows, not latencies: where company was measured, it slows the whole time.
TEST(MeasuredMovementsTest, WhatComputingCostsIsOfTheWholeTime) {
  const Cluster cluster = PlainCluster();
  const std::string two_sizes = R"(
      collectives { op: "all_gather" group_size: 2 ranks_per_node: 2 bytes: 1000 median_s: 30e-6 }
      collectives { op: "all_gather" group_size: 2 ranks_per_node: 2 bytes: 8001000
                    median_s: 110e-6 )";
  const auto measured = [&](const std::string& beside, std::int64_t bytes) {
    const MeasuredMovements movements(Parse(two_sizes + beside + "}"), cluster);
    const GroupShape two{2, 1, 2, 2};
    MovementCost cost =
        CollectiveCost(cluster, OpCode::kAllGather, static_cast<double>(bytes), two);
    EXPECT_FALSE(movements.Collective(Collective(OpCode::kAllGather, bytes), two, &cost));
    return cost;
  };
  for (const auto& [bytes, seconds] : {std::pair{1000, 30e-6}, {4001000, 70e-6}}) {
    const MovementCost alone = measured("", bytes);
    const MovementCost company = measured("beside_compute_s: 440e-6", bytes);
    EXPECT_EQ(alone.beside_compute, 0);
    EXPECT_NEAR(alone.fixed_s, 30e-6, 1e-7);
    EXPECT_NEAR(alone.Seconds(), seconds, 1e-12);
    EXPECT_NEAR(company.beside_compute, 4, 1e-12);
    EXPECT_EQ(company.fixed_s, 0);
    EXPECT_NEAR(company.FlowSeconds(), seconds, 1e-12);
  }
}

// Of a size that was measured in place; others as those that were not, which have sizes around it.
TEST(MeasuredMovementsTest, GathersInPlaceAreToldApart) {
  const Cluster cluster = PlainCluster();
  const std::string in_place = R"(
      collectives { op: "all_gather" group_size: 2 ranks_per_node: 2 bytes: 4001000
                    median_s: 50e-6 in_place: true })";
  const std::string others = R"(
      collectives { op: "all_gather" group_size: 2 ranks_per_node: 2 bytes: 1000 median_s: 30e-6 }
      collectives { op: "all_gather" group_size: 2 ranks_per_node: 2 bytes: 8001000
                    median_s: 110e-6 })";
  const auto seconds = [&](const std::string& profile, std::int64_t bytes, bool is_in_place) {
    const MeasuredMovements movements(Parse(profile), cluster);
    const GroupShape two{2, 1, 2, 2};
    MovementCost cost =
        CollectiveCost(cluster, OpCode::kAllGather, static_cast<double>(bytes), two);
    EXPECT_FALSE(
        movements.Collective(Collective(OpCode::kAllGather, bytes), two, &cost, is_in_place));
    return cost.Seconds();
  };
  EXPECT_NEAR(seconds(in_place + others, 4001000, true), 50e-6, 1e-12);
  EXPECT_NEAR(seconds(in_place + others, 4001000, false), 70e-6, 1e-12);
  EXPECT_NEAR(seconds(in_place + others, 6001000, true), 90e-6, 1e-12);
  EXPECT_NEAR(seconds(others, 4001000, true), 70e-6, 1e-12);
  EXPECT_NEAR(seconds(in_place, 4001000, false), 50e-6, 1e-12);
}

// Of one that copies its own shard first, time beside operators may hold waiting for its turn: what
// follows the copy is slowed as a gather in place of the nearest size, if that is less.
TEST(MeasuredMovementsTest, WaitingForATurnSlowsNoGather) {
  const Cluster cluster = PlainCluster();
  const auto slowdown = [&](double beside_us, bool takes_turns, double in_place_us) {
    const auto sample = [](double us, const std::string& more) {
      return "collectives { op: 'all_gather' group_size: 2 ranks_per_node: 2 bytes: 8000000 "
             "median_s: 100e-6 beside_compute_s: " +
             std::to_string(us * 1e-6) + more + " }";
    };
    std::string profile = sample(beside_us, takes_turns ? " takes_turns: true" : "");
    if (in_place_us > 0) profile += sample(in_place_us, " in_place: true");
    const MeasuredMovements movements(Parse(profile), cluster);
    const GroupShape two{2, 1, 2, 2};
    MovementCost cost = CollectiveCost(cluster, OpCode::kAllGather, 4e6, two);
    EXPECT_TRUE(movements.Collective(Collective(OpCode::kAllGather, 4'000'000), two, &cost));
    return cost.beside_compute;
  };
  EXPECT_NEAR(slowdown(250, true, 110), 1.1, 1e-9);
  EXPECT_NEAR(slowdown(105, true, 110), 1.05, 1e-9);
  EXPECT_NEAR(slowdown(80, true, 110), 1, 1e-9);
  EXPECT_NEAR(slowdown(250, true, 0), 2.5, 1e-9);
  EXPECT_NEAR(slowdown(250, false, 110), 2.5, 1e-9);
}

TEST(MeasuredMovementsTest, SumsDependOnTheirType) {
  const Cluster cluster = PlainCluster();
  const MeasuredMovements movements(Parse(R"(
      collectives { op: "all_reduce" group_size: 2 ranks_per_node: 2 bytes: 1000 median_s: 30e-6
                    dtype: "fp32" }
      collectives { op: "all_reduce" group_size: 2 ranks_per_node: 2 bytes: 1000 median_s: 90e-6
                    dtype: "bf16" busy_median_s: 99e-6 }
      collectives { op: "all_reduce" group_size: 2 ranks_per_node: 2 bytes: 1000 median_s: 10e-6
                    dtype: "fp32" flags: 1024 })"),
                                    cluster);
  const GroupShape two{2, 1, 2, 2};
  const auto measured = [&](Dtype dtype, std::uint16_t flags) {
    const OpShape shape{.op = OpCode::kAllReduce, .dtype = dtype, .flags = flags, .dims = {1000}};
    MovementCost cost = CollectiveCost(cluster, shape.op, 1000, two);
    EXPECT_FALSE(movements.Collective(shape, two, &cost));
    return cost;
  };
  EXPECT_NEAR(measured(Dtype::kFp32, 0).Seconds(), 30e-6, 1e-15);
  EXPECT_EQ(measured(Dtype::kFp32, 0).busy_slowdown, 0);  // Not measured.
  EXPECT_NEAR(measured(Dtype::kBf16, 0).Seconds(), 90e-6, 1e-15);
  EXPECT_NEAR(measured(Dtype::kBf16, 0).busy_slowdown, 1.1, 1e-12);
  EXPECT_NEAR(measured(Dtype::kFp32, kExactSum).Seconds(), 10e-6, 1e-15);
  MovementCost cost = CollectiveCost(cluster, OpCode::kAllReduce, 1000, two);
  const OpShape never{.op = OpCode::kAllReduce, .dtype = Dtype::kFp16, .dims = {1000}};
  EXPECT_TRUE(movements.Collective(never, two, &cost));
}

TEST(MeasuredOperatorsTest, RestedBesideCopiesIsOverRestedAlone) {
  const MeasuredOperators operators = Operators(Parse(R"(
      operators { op: "add" dtype: "bf16" dims: 1000 median_s: 10e-6 rested_s: 8e-6
                  rested_beside_h2d_s: 10e-6 rested_beside_copies_s: 12e-6 }
      operators { op: "add" dtype: "bf16" dims: 2000 median_s: 20e-6
                  rested_beside_h2d_s: 30e-6 })"),
                                                PlainCluster());
  OpShape add{.op = OpCode::kAdd, .dtype = Dtype::kBf16, .dims = {1000}};
  EXPECT_NEAR(operators.Of(add).rested_speedup, 1.25, 1e-12);
  EXPECT_NEAR(operators.Of(add).rested_beside_h2d, 1.25, 1e-12);
  EXPECT_NEAR(operators.Of(add).rested_beside_both, 1.5, 1e-12);
  EXPECT_EQ(operators.Of(add).rested_beside_d2h, 0);  // Not measured.
  // Without a time after a rest there is nothing to relate it to.
  add.dims = {2000};
  EXPECT_EQ(operators.Of(add).rested_speedup, 0);
  EXPECT_EQ(operators.Of(add).rested_beside_h2d, 0);
}

TEST(MeasuredOperatorsTest, BusyTimeShardsAndHost) {
  const Cluster cluster = PlainCluster();
  const MeasuredOperators operators = Operators(Parse(R"(
      operators { op: "grad_norm" dtype: "fp32" dims: 1000 median_s: 8e-6 busy_median_s: 12e-6 }
      operators { op: "grad_norm" dtype: "fp32" dims: 1000 count: 2 median_s: 4e-6 }
      operators { op: "adam" dtype: "fp32" dims: 1000 median_s: 5e-6 on_host: true })"),
                                                cluster);
  OpShape norm{.op = OpCode::kGradNorm, .dtype = Dtype::kFp32, .dims = {1000}};
  EXPECT_EQ(operators.Of(norm).seconds, 8e-6);
  EXPECT_NEAR(operators.Of(norm).busy_slowdown, 1.5, 1e-12);
  norm.count = 2;
  norm.index = 1;
  EXPECT_EQ(operators.Of(norm).seconds, 4e-6);
  EXPECT_EQ(operators.Of(norm).busy_slowdown, 0);  // Not measured.
  EXPECT_FALSE(operators.OnHost(norm).has_value());
  const OpShape adam{.op = OpCode::kAdam, .dtype = Dtype::kFp32, .dims = {1000}};
  EXPECT_TRUE(operators.Of(adam).extrapolated);
  ASSERT_TRUE(operators.OnHost(adam).has_value());
  EXPECT_EQ(operators.OnHost(adam)->seconds, 5e-6);
  EXPECT_FALSE(operators.OnHost(adam)->extrapolated);
}

TEST(MeasuredMovementsTest, ChangedLinkScalesNewOverOld) {
  const Cluster old_cluster = PlainCluster();
  Profile profile = Parse(kCopies);
  *profile.mutable_measured_on() = old_cluster;
  Cluster twice = old_cluster;
  twice.mutable_node()->mutable_pcie()->set_h2d_bytes_per_s(40e9);
  MovementCost cost = CopyCost(twice, 1e6, true);
  EXPECT_TRUE(MeasuredMovements(profile, twice).Copy(1e6, true, &cost));
  EXPECT_NEAR(cost.Seconds(), 55e-6, 1e-12);
}

TEST(ProfileInComputeCostsTest, TablesRatesAndWarnings) {
  const Cluster cluster = PlainCluster();
  Profile profile = Parse(std::string(kCopies) + Sample(64, 128, 256, 0.125) + R"(
      gpu_adam_params_per_s: 50e9
      host_adam_params_per_s: 0.5e9
      dispatch_s: 5e-6)");
  CostGraph graph(1);
  const TaskId gemm = graph.Compute(0, Gemm(64, 128, 256));
  const TaskId adam = graph.Compute(0, {.op = OpCode::kAdam, .dims = {1'000'000}});
  const TaskId tiny = graph.Compute(0, {.op = OpCode::kAdd, .dims = {1, 1}});
  const TaskId copy = graph.Copy(0, true, 1'000'000);
  const TaskId host = graph.Host(0, {.op = OpCode::kAdam, .dims = {1'000'000}});
  const Result<GraphCosts> result = ComputeCosts(graph.graph(), Model(), cluster, &profile);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const GraphCosts& costs = result.value();
  EXPECT_EQ(costs.Of(gemm).fixed_ps, 125'000'000'000);
  EXPECT_FALSE(costs.Of(gemm).extrapolated);
  EXPECT_EQ(costs.Of(adam).fixed_ps, 20'000'000);
  EXPECT_EQ(costs.Of(tiny).fixed_ps, 5'000'000);  // Not faster than it is launched.
  EXPECT_TRUE(costs.Of(tiny).extrapolated);
  EXPECT_FALSE(costs.Of(copy).extrapolated);
  EXPECT_EQ(costs.flows[costs.Of(host).flow_begin].max_bytes_per_s, 0.5e9 * 28);
  EXPECT_FALSE(costs.Of(host).modelled);
  EXPECT_FALSE(costs.Of(host).extrapolated);
  // Both directions at once: 2 x 2 MB in 500 us are 8 GB/s; one alone has shown a little more.
  bool has_duplex = false;
  for (const Link& link : costs.links) {
    if (link.kind != LinkKind::kPcieDuplex) continue;
    has_duplex = true;
    EXPECT_DOUBLE_EQ(link.bytes_per_s, 999e3 / 100e-6);
  }
  EXPECT_TRUE(has_duplex);
  ASSERT_EQ(costs.warnings.size(), 1u);
  EXPECT_EQ(costs.warnings[0], "extrapolated beyond what the profile has measured: add");
}

TEST(ProfileCostTest, AProfileOfAnotherChipIsTold) {
  Profile profile;
  profile.mutable_measured_on()->mutable_gpu()->set_name("NVIDIA H200");
  Cluster cluster = PlainCluster();
  const auto warnings = [&](const char* gpu) {
    cluster.mutable_gpu()->set_name(gpu);
    const Result<GraphCosts> costs = ComputeCosts(CostGraph(1).graph(), Model(), cluster, &profile);
    return costs.ok() ? costs.value().warnings : std::vector{costs.error().message};
  };
  EXPECT_EQ(warnings("H200"), std::vector<std::string>{});
  EXPECT_EQ(warnings("H800"),
            std::vector<std::string>{"the profile was measured on NVIDIA H200, not on H800: each "
                                     "time is scaled by what is modelled for both"});
}

// One operator in several parts of pairs.
constexpr const char* kPairs = R"(
    operators { op: 'add' dtype: 'bf16' dims: 64 dims: 64 median_s: 1e-4 }
    operators { op: 'add' dtype: 'bf16' dims: 64 dims: 64 median_s: 2e-6 fusion: WITH_PREVIOUS }
    operators { op: 'gemm_forward' dtype: 'bf16' dims: 64 dims: 64 dims: 64 median_s: 3e-4 }
    operators { op: 'gemm_forward' dtype: 'bf16' dims: 64 dims: 64 dims: 64 median_s: 4e-4
                fusion: GEMM_ADD }
    operators { op: 'gemm_forward' dtype: 'bf16' dims: 64 dims: 64 dims: 256 median_s: 5e-4 }
    operators { op: 'mul_forward' dtype: 'bf16' dims: 64 dims: 64 median_s: 6e-5 fusion: SWIGLU }
    operators { op: 'mul_forward' dtype: 'bf16' dims: 64 dims: 64 median_s: 8e-5
                fusion: SWIGLU_WITH_SILU }
    fused_pairs: ALL_PAIRS)";

TEST(PairsInProfileTest, EachPartHasItsOwnTime) {
  const MeasuredOperators operators = Operators(Parse(kPairs), PlainCluster());
  const OpShape add{.op = OpCode::kAdd, .dims = {64, 64}};
  const OpShape mul{.op = OpCode::kMulForward, .dims = {64, 64}};
  const std::vector<std::tuple<OpShape, Fusion, double>> expected = {
      {add, Fusion::kAlone, 1e-4},
      {add, Fusion::kWithPrevious, 2e-6},
      {Gemm(64, 64, 64), Fusion::kAlone, 3e-4},
      {Gemm(64, 64, 64), Fusion::kGemmAdd, 4e-4},
      {mul, Fusion::kSwiGlu, 6e-5},
      {mul, Fusion::kSwiGluWithSilu, 8e-5}};
  for (const auto& [shape, fusion, seconds] : expected) {
    const MeasuredOperators::Estimate estimate = operators.Of(shape, fusion);
    EXPECT_EQ(estimate.seconds, seconds);
    EXPECT_FALSE(estimate.extrapolated);
    EXPECT_FALSE(estimate.modelled);
  }
}

TEST(PairsInProfileTest, WhatWasMeasuredInOtherPartsOnlyIsExtrapolated) {
  const MeasuredOperators operators = Operators(Parse(kPairs), PlainCluster());
  // A product takes the time of its size, whatever it adds ...
  const MeasuredOperators::Estimate product = operators.Of(Gemm(64, 64, 256), Fusion::kGemmAdd);
  EXPECT_EQ(product.seconds, 5e-4);
  EXPECT_TRUE(product.extrapolated);
  // ... as do others of which no part of that kind was measured.
  const MeasuredOperators::Estimate mul =
      operators.Of({.op = OpCode::kMulForward, .dims = {64, 64}}, Fusion::kAlone);
  EXPECT_EQ(mul.seconds, 6e-5);
  EXPECT_TRUE(mul.extrapolated);
  EXPECT_FALSE(mul.modelled);
  // What its partner's kernel does takes no other part's time, and gives none.
  const MeasuredOperators::Estimate silu =
      operators.Of({.op = OpCode::kSiluForward, .dims = {64, 64}}, Fusion::kWithNext);
  EXPECT_EQ(silu.seconds, 0);
  EXPECT_TRUE(silu.extrapolated);
  EXPECT_TRUE(silu.modelled);
  const Profile only_fused = Parse(R"(
      operators { op: 'add' dtype: 'bf16' dims: 64 dims: 64 median_s: 2e-6 fusion: WITH_PREVIOUS }
      fused_pairs: ALL_PAIRS)");
  const OpShape add{.op = OpCode::kAdd, .dims = {64, 64}};
  const MeasuredOperators::Estimate sum = Operators(only_fused, PlainCluster()).Of(add);
  EXPECT_EQ(sum.seconds, OperatorRoofline(PlainCluster(), kGradientBytes).Of(add).seconds);
  EXPECT_TRUE(sum.modelled);
}

TEST(PairsInProfileTest, BoundsTakeTheCheapestPart) {
  const Profile cheapest = CheapestParts(Parse(kPairs));
  EXPECT_EQ(cheapest.fused_pairs(), Profile::UNTOLD);
  std::vector<double> seconds;
  for (const OperatorSample& sample : cheapest.operators()) {
    EXPECT_EQ(sample.fusion(), OperatorSample::ALONE);
    seconds.push_back(sample.median_s());
  }
  EXPECT_EQ(seconds, (std::vector<double>{2e-6, 3e-4, 5e-4, 6e-5}));
  // Nothing is told apart: nothing to choose from.
  const Profile untold = Parse(Sample(64, 64, 64, 2e-4) + Sample(64, 64, 64, 1e-4));
  EXPECT_EQ(CheapestParts(untold).operators_size(), 2);
}

TEST(PairsInProfileTest, PartsSufferAlikeWhereOneWasMeasured) {
  const MeasuredOperators operators = Operators(Parse(R"(
      operators { op: 'gemm_forward' dtype: 'bf16' dims: 64 dims: 64 dims: 64 median_s: 2e-4
                  beside_h2d_s: 2.2e-4 }
      operators { op: 'gemm_forward' dtype: 'bf16' dims: 64 dims: 64 dims: 64 median_s: 4e-4
                  fusion: GEMM_ADD beside_h2d_s: 6e-4 beside_copies_s: 8e-4 }
      operators { op: 'add' dtype: 'bf16' dims: 64 dims: 64 median_s: 1e-4 }
      operators { op: 'add' dtype: 'bf16' dims: 64 dims: 64 median_s: 2e-6 beside_h2d_s: 4e-6
                  fusion: WITH_PREVIOUS }
      fused_pairs: ALL_PAIRS)"),
                                                PlainCluster());
  const MeasuredOperators::Estimate alone = operators.Of(Gemm(64, 64, 64));
  EXPECT_DOUBLE_EQ(alone.beside_h2d, 1.1);
  EXPECT_DOUBLE_EQ(alone.beside_both, 2);
  EXPECT_EQ(alone.beside_d2h, 0);
  // No kernel's slowdown is nobody's.
  EXPECT_EQ(operators.Of({.op = OpCode::kAdd, .dims = {64, 64}}).beside_h2d, 0);
}

// Two sums of one size: one behind its product, one behind a collective.
TEST(PairsInProfileTest, GraphsTakeOfEachTaskItsPart) {
  GraphBuilder builder(1);
  const auto kept = [&builder] { return builder.AddBuffer(0, 8192, {.persistent = true}); };
  const BufferId x = kept(), w = kept(), residual = kept();
  std::vector<GraphBuilder::Handle> tasks;
  for (const bool is_summed_between : {false, true}) {
    const BufferId z = builder.AddBuffer(0, 8192);
    tasks.push_back(builder.Add({.shape = Gemm(64, 64, 64), .reads = {{x}, {w}}, .writes = {{z}}}));
    if (is_summed_between) builder.AllReduce({z});
    tasks.push_back(builder.Add({.shape = {.op = OpCode::kAdd, .dims = {64, 64}},
                                 .reads = {{z}, {residual}},
                                 .writes = {{kept()}}}));
  }
  const TaskGraph graph = builder.Build();
  const auto times = [&](const Profile& profile) {
    const Result<GraphCosts> costs = ComputeCosts(graph, Model(), PlainCluster(), &profile);
    EXPECT_TRUE(costs.ok());
    std::vector<Picoseconds> of_tasks;
    for (const GraphBuilder::Handle task : tasks) {
      of_tasks.push_back(costs.value().Of(builder.Id(task)).fixed_ps);
    }
    return of_tasks;
  };
  Profile profile = Parse(kPairs);
  EXPECT_EQ(times(profile),
            (std::vector<Picoseconds>{400'000'000, 2'000'000, 300'000'000, 100'000'000}));
  // The same bits: no sum is its product's.
  profile.set_fused_pairs(Profile::SAME_BITS);
  EXPECT_EQ(times(profile),
            (std::vector<Picoseconds>{300'000'000, 100'000'000, 300'000'000, 100'000'000}));
  // A profile that does not tell them apart has one time for all.
  const Profile untold = Parse(Sample(64, 64, 64, 2e-4) + R"(
      operators { op: 'add' dtype: 'bf16' dims: 64 dims: 64 median_s: 5e-5 })");
  EXPECT_EQ(times(untold),
            (std::vector<Picoseconds>{200'000'000, 50'000'000, 200'000'000, 50'000'000}));
}

TEST(ProfileInComputeCostsTest, OperatorsSufferFromCopiesAsMeasured) {
  Profile profile = Parse(R"(
      operators { op: 'gemm_forward' dtype: 'bf16' dims: 64 dims: 64 dims: 64 median_s: 1e-5
                  beside_copies_s: 1.5e-5 }
      operators { op: 'gemm_forward' dtype: 'bf16' dims: 256 dims: 64 dims: 64 median_s: 2e-5
                  beside_copies_s: 2.2e-5 }
      operators { op: 'add' dtype: 'bf16' dims: 64 dims: 64 median_s: 1e-6 beside_copies_s: 0.9e-6 }
      interference { compute_beside_copy: 1.5 compute_beside_d2h: 1.1 })");
  CostGraph graph(1);
  const TaskId most = graph.Compute(0, Gemm(64, 64, 64));
  const TaskId less = graph.Compute(0, Gemm(256, 64, 64));
  const TaskId between = graph.Compute(0, Gemm(128, 64, 64));
  const TaskId none = graph.Compute(0, {.op = OpCode::kAdd, .dims = {64, 64}});
  const Result<GraphCosts> result = ComputeCosts(graph.graph(), Model(), PlainCluster(), &profile);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const GraphCosts& costs = result.value();
  EXPECT_EQ(costs.interference.compute_beside_d2h(), 1.1);
  EXPECT_NEAR(costs.Of(most).interference_sensitivity, 1, 1e-6);
  EXPECT_NEAR(costs.Of(less).interference_sensitivity, 0.2, 1e-6);
  EXPECT_GT(costs.Of(between).interference_sensitivity, 0.2F);
  EXPECT_LT(costs.Of(between).interference_sensitivity, 1);
  EXPECT_EQ(costs.Of(none).interference_sensitivity, 0);
}

TEST(ProfileInComputeCostsTest, HostAdamThatWasNotMeasuredIsTold) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_host()->set_dram_bytes_per_s(100e9);
  const Profile profile = Parse("gpu_adam_params_per_s: 50e9");
  CostGraph graph(1);
  const TaskId host = graph.Host(0, {.op = OpCode::kAdam, .dims = {1'000'000}});
  const Result<GraphCosts> result = ComputeCosts(graph.graph(), Model(), cluster, &profile);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(result.value().Of(host).modelled);
  ASSERT_EQ(result.value().warnings.size(), 1u);
  EXPECT_EQ(result.value().warnings[0], "extrapolated beyond what the profile has measured: adam");
}

TEST(ProfileInComputeCostsTest, CopiesTakeOfHostAdamWhatWasMeasured) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_pcie()->set_h2d_bytes_per_s(28e9);
  cluster.mutable_node()->mutable_pcie()->set_d2h_bytes_per_s(56e9);
  const Profile profile = Parse(R"(
      host_adam_params_per_s: 2e9
      host_adam_params_per_s_beside_h2d: 1.5e9
      host_adam_params_per_s_beside_d2h: 1e9)");
  CostGraph graph(1);
  const TaskId up = graph.Copy(0, true, 1'000'000);
  const TaskId down = graph.Copy(0, false, 1'000'000);
  const Result<GraphCosts> result = ComputeCosts(graph.graph(), Model(), cluster, &profile);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const GraphCosts& costs = result.value();
  // A quarter of 56 GB/s to 28 GB/s of copies, half of it to 56.
  EXPECT_EQ(HostComputeShare(costs, up), 0.5);
  EXPECT_EQ(HostComputeShare(costs, down), 0.5);
}

// Adam of all ranks ran beside copies of all GPUs: one GPU's copies take their part of it, and the
// memory had room for all of them at once.
TEST(ProfileInComputeCostsTest, CopiesOfOneGpuTakeOfHostAdamTheirPart) {
  Cluster cluster = PlainCluster();
  Node* const node = cluster.mutable_node();
  node->set_gpus(2);
  node->mutable_pcie()->set_h2d_bytes_per_s(28e9);
  node->mutable_pcie()->set_d2h_bytes_per_s(56e9);
  node->mutable_host()->set_dram_bytes_per_s(112e9);
  Profile profile = Parse(R"(
      host_adam_params_per_s: 2e9
      host_adam_params_per_s_beside_h2d: 1.5e9
      host_adam_params_per_s_beside_d2h: 1e9
      host_adam_params_per_s_beside_copies: 1e9)");
  *profile.mutable_measured_on() = cluster;
  CostGraph graph(2);
  const TaskId up = graph.Copy(0, true, 1'000'000);
  const TaskId down = graph.Copy(1, false, 1'000'000);
  const TaskId adam = graph.Host(0, {.op = OpCode::kAdam, .dims = {1'000'000}});
  const Result<GraphCosts> result = ComputeCosts(graph.graph(), Model(), cluster, &profile);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const GraphCosts& costs = result.value();
  // A quarter of 56 GB/s to twice 28 GB/s of copies, half of it to twice 56.
  EXPECT_EQ(HostComputeShare(costs, up), 0.25);
  EXPECT_EQ(HostComputeShare(costs, down), 0.25);
  // Twice 84 GB/s of copies and 28 of Adam, each byte of which counts.
  const std::vector<RouteHop> memory = HopsOf(costs, adam, LinkKind::kDram);
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].multiplicity, 1);
  EXPECT_EQ(costs.links[memory[0].link].bytes_per_s, 2 * 84e9 + 28e9);
}

// Both ways, copies of both GPUs took 1.25 times as long: computation is not to blame for more than
// what it cost one way.
TEST(ProfileInComputeCostsTest, CopiesOfAllGpusShareTheHost) {
  Cluster cluster = PlainCluster();
  Node* const node = cluster.mutable_node();
  node->mutable_pcie()->set_h2d_bytes_per_s(50e9);
  node->mutable_pcie()->set_d2h_bytes_per_s(50e9);
  Profile profile = Parse(R"(
      interference { copy_beside_compute: 1.25 h2d_beside_compute: 1 d2h_beside_compute: 1 })");
  CostGraph graph(2);
  graph.Copy(0, true, 1'000'000);
  graph.Copy(1, false, 1'000'000);
  for (const std::int64_t gpus : {1, 2}) {
    node->set_gpus(gpus);
    *profile.mutable_measured_on() = cluster;
    node->set_gpus(2);
    const Result<GraphCosts> costs = ComputeCosts(graph.graph(), Model(), cluster, &profile);
    ASSERT_TRUE(costs.ok()) << costs.error().message;
    double shared_bytes_per_s = 0;
    for (const Link& link : costs.value().links) {
      if (link.kind == LinkKind::kHostCopies) shared_bytes_per_s = link.bytes_per_s;
    }
    EXPECT_EQ(costs.value().interference.copy_beside_compute(), gpus == 1 ? 1.25 : 1);
    EXPECT_EQ(shared_bytes_per_s, gpus == 1 ? 0 : 160e9);  // 40 of 50 GB/s a GPU and direction.
  }
}

TEST(ProfileInComputeCostsTest, LinksCarryWhatWasMeasuredOnThem) {
  // 1 MB in 25 us is 40 GB/s, twice the cluster's constant.
  Profile profile = Parse(R"(
      copies { direction: H2D bytes: 1000 alone_s: 1e-9 }
      copies { direction: H2D bytes: 1000000 alone_s: 25e-6 })");
  CostGraph graph(1);
  graph.Copy(0, true, 1'000'000);
  const Result<GraphCosts> costs = ComputeCosts(graph.graph(), Model(), PlainCluster(), &profile);
  ASSERT_TRUE(costs.ok());
  EXPECT_NEAR(costs.value().links[0].bytes_per_s, 40e9, 0.1e9);
}

}  // namespace
}  // namespace twinstep
