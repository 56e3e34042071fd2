// The measurement of a GPU, on the CPU backend in its place: it covers every primitive of a plan,
// and its profile is one that the simulator takes.
#include "exec/profile/gpu_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/cpu/cpu_backend.h"
#include "exec/profile/build_profile.h"
#include "exec/profile/layer_plan.h"
#include "exec/profile/probe_graph.h"
#include "hw_specs/validate_cluster.h"
#include "hw_specs/validate_profile.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
#include "sim/textproto/text_file.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

Result<std::unique_ptr<Backend>> MakeCpuBackend(const ProfileInput& /*input*/) {
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(CpuBackendOptions{.threads = 3}));
}

constexpr std::int64_t kKilobyte = 1024;

ProbeSizes SmallSizes() {
  return {.warm_up_s = 0.05,
          .pause_s = 0,
          .beside_bytes = 64 * kKilobyte,
          .copy_bytes = {kKilobyte, 256 * kKilobyte},
          .product = 64,
          .device_copy_bytes = 256 * kKilobyte,
          .launches = 20};
}

Cluster SmallGpu() {
  Cluster cluster;
  cluster.set_name("small");
  cluster.set_nodes(1);
  cluster.mutable_node()->set_gpus(1);
  cluster.mutable_gpu()->set_name("CPU in place of a GPU");
  cluster.mutable_gpu()->set_memory_bytes(std::int64_t{1} << 30);
  return cluster;
}

ProfileInput InputOf(const Model& model, const std::vector<Plan>& plans) {
  ProfileInput input;
  input.model = model;
  input.on_gpu = true;
  input.threads = 2;
  input.seconds = 0.2;
  for (const Plan& plan : plans) {
    input.plans.push_back({.name = "",
                           .cluster = SmallGpu(),
                           .plan = ResolvePlan(model, SmallGpu(), plan, 1).value()});
  }
  return input;
}

Plan ChunkPlanOf() {
  Plan plan = SmallPlan(1, 1, 1, 1);
  plan.set_persistent_chunks(1);
  plan.set_chunk_buffers(3);
  plan.set_checkpointed_blocks(2);
  return plan;
}

TEST(GpuProfile, CoversWhatPlansDoAndIsSimulated) {
  const Model model = SmallModel("llama", FP32);
  const ProfileInput input = InputOf(model, {SmallPlan(1, 1, 1, 1), ChunkPlanOf()});
  Progress progress(StepsOfGpuMeasurement(input));
  const Result<Profile> measured =
      MeasureGpuProfile(input, MakeCpuBackend, SmallSizes(), &progress);
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  const Profile& profile = measured.value();
  EXPECT_TRUE(ValidateProfile(profile, {}).ok()) << ValidateProfile(profile, {}).error().message;
  EXPECT_TRUE(ValidateCluster(profile.measured_on()).ok());
  EXPECT_GE(profile.interference().compute_beside_copy(), 1);
  EXPECT_GT(profile.host_adam_params_per_s(), 0);
  for (const PlanToMeasure& plan : input.plans) {
    const TaskGraph graph = Lower(model, plan.cluster, plan.plan, {.fold = false}).value();
    // The CPU's Adam is a rate, and no entry.
    std::vector<std::string> missing = CoverageOf(profile, graph).missing;
    std::erase_if(missing, [](const std::string& x) { return x.ends_with("on host"); });
    EXPECT_THAT(missing, IsEmpty());
    const Result<GraphCosts> costs = ComputeCosts(graph, model, profile.measured_on(), &profile);
    ASSERT_TRUE(costs.ok()) << costs.error().message;
    EXPECT_TRUE(MakeFastEngine()->Run(graph, costs.value()).ok());
  }
}

TEST(GpuProfile, SeveralRanksAreRefused) {
  const Model model = SmallModel("llama", FP32);
  ProfileInput input = InputOf(model, {SmallPlan(1, 1, 1, 1)});
  input.plans[0].plan.gpus = 2;
  Progress progress(StepsOfGpuMeasurement(input));
  const Result<Profile> measured =
      MeasureGpuProfile(input, MakeCpuBackend, SmallSizes(), &progress);
  ASSERT_FALSE(measured.ok());
  EXPECT_EQ(measured.error().code, ExitCode::kNo);
}

TEST(LayerPlan, FewerLayersWhereTheyDoNotFit) {
  Model model = SmallModel("llama", FP32);
  model.set_layers(8);
  Cluster cluster = SmallGpu();
  const ResolvedPlan plan = ResolvePlan(model, cluster, SmallPlan(1, 1, 1, 1), 1).value();
  const Result<LoweredPlan> all = LowerFewLayers(model, cluster, plan);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all.value().model.layers(), kFewestLayers);
  const std::int64_t bytes = all.value().arena.arena_bytes[0][0];
  cluster.mutable_gpu()->set_memory_bytes(bytes);
  EXPECT_EQ(LowerFewLayers(model, cluster, plan).value().model.layers(), kFewestLayers - 1);
  cluster.mutable_gpu()->set_memory_bytes(bytes / 100);
  const Result<LoweredPlan> none = LowerFewLayers(model, cluster, plan);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().rule, "gpu-memory");
  EXPECT_GT(none.error().excess_bytes, 0);
}

TEST(ProbeGraph, CopiesComeFirstAndEdgesMoveWithTheirTasks) {
  const Model model = SmallModel("llama", FP32);
  const ResolvedPlan plan = ResolvePlan(model, SmallGpu(), SmallPlan(1, 1, 1, 1), 1).value();
  const TaskGraph graph = Lower(model, SmallGpu(), plan, {.fold = false}).value();
  const TaskGraph both = WithCopies(graph, {.bytes = kKilobyte, .h2d = 3, .d2h = 2});
  ASSERT_THAT(both.tasks, SizeIs(graph.TaskCount() + 5));
  EXPECT_EQ(both.tasks[0].lane, Lane::kH2D);
  EXPECT_EQ(both.tasks[3].lane, Lane::kD2H);
  EXPECT_EQ(both.EdgeCount(), graph.EdgeCount());
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    EXPECT_EQ(both.shapes[both.tasks[id + 5].shape], graph.shapes[graph.tasks[id].shape]);
    const auto was = graph.Successors(id), is = both.Successors(id + 5);
    ASSERT_EQ(was.size(), is.size());
    for (std::size_t i = 0; i < was.size(); ++i) EXPECT_EQ(was[i] + 5, is[i]);
  }
}

}  // namespace
}  // namespace twinstep
