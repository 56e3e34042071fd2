// GPUs of one machine that differ: exact times by rank, and where they are not those.
#include "sim/cost/gpu_speeds.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "hw_specs/validate_profile.h"
#include "sim/cost/graph_costs.h"
#include "sim/cost/profile_cost.h"
#include "sim/cost/profile_pairs.h"
#include "sim/engine/engine.h"
#include "sim/search/plan_replay.h"
#include "sim/simulate/simulation.h"
#include "tests/cost/cost_graph.h"
#include "tests/cost/test_clusters.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/graph/graph_builder.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

constexpr Picoseconds kMicrosecond = 1'000'000;

// A product of 1 ms, on the GPUs 0.75 and 1.25; an addition of 100 us, that is told of none.
constexpr const char* kSamples = R"(
    operators { op: 'gemm_forward' dtype: 'bf16' dims: 64 dims: 64 dims: 64 median_s: 1e-3
                beside_copies_s: 1.5e-3 rested_s: 5e-4 gpu_slowness: 0.75 gpu_slowness: 1.25 }
    operators { op: 'add' dtype: 'bf16' dims: 64 dims: 64 median_s: 1e-4 }
    clocks { boost_s: 1 boost_per_rest_s: 1 })";

Cluster Gpus(std::int64_t gpus) {
  Cluster cluster = PlainCluster();
  cluster.set_nodes(1);
  cluster.mutable_node()->set_gpus(gpus);
  return cluster;
}

Profile TwoGpus(const std::string& samples = kSamples) {
  Profile profile;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(samples, &profile));
  *profile.mutable_measured_on() = Gpus(2);
  return profile;
}

OpShape Product(std::int64_t rows = 64) {
  return {.op = OpCode::kGemmForward, .dims = {rows, 64, 64}};
}

constexpr OpShape kSum{.op = OpCode::kAdd, .dims = {64, 64}};

TEST(GpuSpeedsTest, RanksComputeAsTheirGpus) {
  const Profile profile = TwoGpus();
  CostGraph graph(2);
  const TaskId products[] = {graph.Compute(0, Product()), graph.Compute(1, Product())};
  const TaskId sums[] = {graph.Compute(0, kSum), graph.Compute(1, kSum)};
  const Result<GraphCosts> result = ComputeCosts(graph.graph(), Model(), Gpus(2), &profile);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const GraphCosts& costs = result.value();
  EXPECT_EQ(costs.Of(products[0]).fixed_ps, 750 * kMicrosecond);
  EXPECT_EQ(costs.Of(products[1]).fixed_ps, 1250 * kMicrosecond);
  for (const TaskId sum : sums) EXPECT_EQ(costs.Of(sum).fixed_ps, 100 * kMicrosecond);
  for (const TaskId product : products) {
    // Copies slow both by as much, and after a rest both take 500 us.
    EXPECT_FLOAT_EQ(costs.Of(product).beside_both, 1.5F);
    EXPECT_FLOAT_EQ(
        static_cast<float>(costs.Of(product).fixed_ps) / costs.Of(product).rested_speedup,
        500.0F * kMicrosecond);
  }
}

TEST(GpuSpeedsTest, FewerRanksAreOnTheFirstGpus) {
  const Profile profile = TwoGpus();
  CostGraph graph(1);
  const TaskId product = graph.Compute(0, Product());
  for (const std::int64_t gpus : {1, 2}) {
    const Result<GraphCosts> costs = ComputeCosts(graph.graph(), Model(), Gpus(gpus), &profile);
    ASSERT_TRUE(costs.ok()) << costs.error().message;
    EXPECT_EQ(costs.value().Of(product).fixed_ps, 750 * kMicrosecond);
  }
}

// Of other machines nobody knows how their GPUs differ.
TEST(GpuSpeedsTest, WhatIfsTakeTheMean) {
  const Profile profile = TwoGpus();
  Cluster two_nodes = Gpus(1);
  two_nodes.set_nodes(2);
  Cluster of_others = Gpus(2);
  of_others.mutable_gpu()->set_name("another GPU");
  for (const Cluster& cluster : {Gpus(4), two_nodes, of_others}) {
    EXPECT_FALSE(HasGpuSpeeds(&profile, cluster, 2));
    CostGraph graph(2);
    const TaskId products[] = {graph.Compute(0, Product()), graph.Compute(1, Product())};
    const Result<GraphCosts> costs = ComputeCosts(graph.graph(), Model(), cluster, &profile);
    ASSERT_TRUE(costs.ok()) << costs.error().message;
    for (const TaskId product : products) {
      EXPECT_EQ(costs.value().Of(product).fixed_ps, 1000 * kMicrosecond);
    }
  }
  EXPECT_FALSE(HasGpuSpeeds(nullptr, Gpus(2), 2));
  Profile alike = TwoGpus();
  for (OperatorSample& sample : *alike.mutable_operators()) sample.clear_gpu_slowness();
  EXPECT_FALSE(HasGpuSpeeds(&alike, Gpus(2), 2));
}

TEST(GpuSpeedsTest, SizesBetweenTakeWhatLiesBetween) {
  Profile profile = TwoGpus(std::string(kSamples) + R"(
    operators { op: 'gemm_forward' dtype: 'bf16' dims: 256 dims: 64 dims: 64 median_s: 4e-3
                gpu_slowness: 1 gpu_slowness: 1 })");
  const auto of = [&](std::int64_t rows) {
    return MeasuredOperators(profile, OperatorRoofline(Gpus(2), 4), 4).Of(Product(rows));
  };
  const MeasuredOperators::Estimate between = of(128), beyond = of(512);
  ASSERT_EQ(between.gpu_slowness.size(), 2u);
  EXPECT_GT(between.gpu_slowness[0], 0.75);
  EXPECT_LT(between.gpu_slowness[0], 1);
  EXPECT_GT(between.gpu_slowness[1], 1);
  EXPECT_LT(between.gpu_slowness[1], 1.25);
  EXPECT_EQ(beyond.gpu_slowness.size(), 2u);
  // One that was not measured on each tells nothing of the others.
  profile.mutable_operators()->rbegin()->clear_gpu_slowness();
  EXPECT_TRUE(of(128).gpu_slowness.empty());
  EXPECT_TRUE(of(512).gpu_slowness.empty());
  EXPECT_EQ(of(64).gpu_slowness.size(), 2u);
}

TEST(GpuSpeedsTest, BoundsTakeTheFastest) {
  const Profile fastest = CheapestParts(TwoGpus());
  EXPECT_FALSE(HasGpuSpeeds(&fastest, Gpus(2), 2));
  EXPECT_EQ(fastest.operators(0).median_s(), 0.75e-3);
  EXPECT_EQ(fastest.operators(1).median_s(), 1e-4);
  // What-ifs take the mean, also where a profile says that all GPUs are slower than that.
  Profile slower = TwoGpus();
  for (double& x : *slower.mutable_operators(0)->mutable_gpu_slowness()) x = 1.5;
  EXPECT_EQ(CheapestParts(slower).operators(0).median_s(), 1e-3);
}

TEST(GpuSpeedsTest, FoldedGraphsAreRefused) {
  const Profile profile = TwoGpus();
  CostGraph graph({0, 0}, {0});
  graph.Compute(0, Product());
  const Result<GraphCosts> costs = ComputeCosts(graph.graph(), Model(), Gpus(2), &profile);
  ASSERT_FALSE(costs.ok());
  EXPECT_THAT(costs.error().message, HasSubstr("must not be folded"));
  EXPECT_TRUE(ComputeCosts(graph.graph(), Model(), Gpus(4), &profile).ok());
}

// Both compute, and meet: the slower one decides.
TEST(GpuSpeedsTest, EnginesWaitForTheSlowerGpu) {
  Profile profile = TwoGpus();
  profile.clear_clocks();
  GraphBuilder builder(2);
  std::vector<BufferId> products;
  for (const RankId rank : {0u, 1u}) {
    const BufferId x = builder.AddBuffer(rank, 8192, {.persistent = true});
    products.push_back(builder.AddBuffer(rank, 8192, {.persistent = true}));
    builder.Add(
        {.rank = rank, .shape = Product(), .reads = {{x}, {x}}, .writes = {{products.back()}}});
  }
  builder.AllReduce(products);
  const TaskGraph graph = builder.Build();
  const Result<GraphCosts> costs = ComputeCosts(graph, Model(), Gpus(2), &profile);
  ASSERT_TRUE(costs.ok()) << costs.error().message;
  for (const std::unique_ptr<Engine>& engine : {MakeFastEngine(), MakeSimgridEngine()}) {
    if (engine == nullptr) continue;  // Built without SimGrid.
    const Result<Replay> replay = engine->Run(graph, costs.value());
    ASSERT_TRUE(replay.ok()) << replay.error().message;
    std::vector<Picoseconds> starts;
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      const bool meets = graph.tasks[id].kind == TaskKind::kCollective;
      const Picoseconds own = graph.tasks[id].rank == 0 ? 750 : 1250;
      EXPECT_EQ(meets ? replay.value().start_ps[id] : replay.value().end_ps[id],
                (meets ? 1250 : own) * kMicrosecond);
    }
  }
}

TEST(GpuSpeedsTest, SimulationsKeepRanksApart) {
  SimulateInput input;
  input.model = SmallModel("llama", BF16);
  input.cluster = Gpus(2);
  input.profile = TwoGpus();
  input.profile->clear_clocks();
  input.gpus = 2;
  input.plan.set_data_parallel(2);
  input.plan.set_micro_batch(1);
  input.plan.set_global_batch(4);
  input.plan.set_sequence_length(8);
  const auto simulate = [&] {
    Result<Simulation> done = Simulate(input, nullptr);
    EXPECT_TRUE(done.ok()) << done.error().message;
    return std::move(done).value();
  };
  const Simulation apart = simulate();
  ASSERT_TRUE(apart.iteration.has_value());
  EXPECT_FALSE(apart.iteration->graph.IsFolded());
  EXPECT_EQ(apart.report.results->ranks.size(), 2u);
  const Result<PlanTime> searched = TimePlan(input, apart.report.plan);
  ASSERT_TRUE(searched.ok()) << searched.error().message;
  EXPECT_EQ(searched.value().iteration_ps, apart.iteration->replay.makespan_ps);
  for (OperatorSample& sample : *input.profile->mutable_operators()) sample.clear_gpu_slowness();
  EXPECT_TRUE(simulate().iteration->graph.IsFolded());
}

TEST(GpuSpeedsTest, ProfilesHaveANumberForEachGpu) {
  EXPECT_TRUE(ValidateProfile(TwoGpus(), {}).ok());
  Profile profile = TwoGpus();
  profile.mutable_measured_on()->mutable_node()->set_gpus(4);
  EXPECT_THAT(ValidateProfile(profile, {}).error().message, HasSubstr("operators[0].gpu_slowness"));
  profile = TwoGpus();
  profile.mutable_operators(0)->set_gpu_slowness(1, 0);
  EXPECT_FALSE(ValidateProfile(profile, {}).ok());
}

}  // namespace
}  // namespace twinstep
