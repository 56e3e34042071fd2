// The measurement of a GPU, on the CPU backend in its place: it covers every primitive of a plan,
// and its profile is one that the simulator takes.
#include "exec/profile/gpu_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/cpu/cpu_backend.h"
#include "exec/profile/build_profile.h"
#include "exec/profile/layer_plan.h"
#include "exec/profile/probe_graph.h"
#include "hw_specs/validate_cluster.h"
#include "hw_specs/validate_profile.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
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
          .layers_s = 0.05,
          .pause_s = 0,
          .beside_bytes = 1024 * kKilobyte,
          .copy_bytes = {kKilobyte, 1024 * kKilobyte},
          .product = 64,
          .device_copy_bytes = 256 * kKilobyte,
          .launches = 20,
          .collective_bytes = {kKilobyte, 64 * kKilobyte},
          .least_adam_params_per_s = 1e8,
          .clocks = {.long_rest_s = 0.01,
                     .short_rest_s = 0.001,
                     .steady_s = 0.02,
                     .window_s = 0.001,
                     .repeats = 2}};
}

Cluster SmallGpus(std::int64_t gpus = 1) {
  Cluster cluster;
  cluster.set_name("small");
  cluster.set_nodes(1);
  cluster.mutable_node()->set_gpus(gpus);
  cluster.mutable_gpu()->set_name("CPU in place of a GPU");
  cluster.mutable_gpu()->set_memory_bytes(std::int64_t{1} << 30);
  return cluster;
}

ProfileInput InputOf(const Model& model, const std::vector<Plan>& plans, std::int64_t gpus = 1) {
  ProfileInput input;
  input.model = model;
  input.on_gpu = true;
  input.threads = 2;
  input.seconds = 0.2;
  for (const Plan& plan : plans) {
    input.plans.push_back({.name = "",
                           .cluster = SmallGpus(gpus),
                           .plan = ResolvePlan(model, SmallGpus(gpus), plan, gpus).value()});
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

// Every primitive of the plans is in the profile, and the simulator takes it.
void ExpectCovered(const ProfileInput& input) {
  Progress progress(kStepsOfGpuMeasurement);
  PhaseTimes times;
  const Result<Profile> measured =
      MeasureGpuProfile(input, MakeCpuBackend, SmallSizes(), &progress, &times);
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  const Profile& profile = measured.value();
  EXPECT_TRUE(ValidateProfile(profile, {}).ok()) << ValidateProfile(profile, {}).error().message;
  EXPECT_TRUE(ValidateCluster(profile.measured_on()).ok());
  EXPECT_GE(profile.interference().compute_beside_copy(), 1);
  EXPECT_GT(profile.host_adam_params_per_s(), 0);
  for (const PlanToMeasure& plan : input.plans) {
    const TaskGraph graph = Lower(input.model, plan.cluster, plan.plan, {.fold = false}).value();
    // The CPU's Adam is a rate, and no entry.
    std::vector<std::string> missing = CoverageOf(profile, graph).missing;
    std::erase_if(missing, [](const std::string& x) { return x.ends_with("on host"); });
    EXPECT_THAT(missing, IsEmpty());
    const Result<GraphCosts> costs =
        ComputeCosts(graph, input.model, profile.measured_on(), &profile);
    ASSERT_TRUE(costs.ok()) << costs.error().message;
    EXPECT_TRUE(MakeFastEngine()->Run(graph, costs.value()).ok());
  }
  const bool has_peers = input.plans.front().plan.gpus > 1;
  EXPECT_EQ(profile.collectives_size() > 0, has_peers);
  EXPECT_EQ(profile.measured_on().node().nvlink().bytes_per_s() > 0, has_peers);
  EXPECT_EQ(profile.measured_on().node().gpus(), input.plans.front().plan.gpus);
}

TEST(GpuProfile, CoversWhatPlansDoAndIsSimulated) {
  ExpectCovered(InputOf(SmallModel("llama", FP32), {SmallPlan(1, 1, 1, 1), ChunkPlanOf()}));
}

TEST(GpuProfile, CoversPlansOfSeveralRanks) {
  Plan interleaved = SmallPlan(1, 1, 2, 1);
  interleaved.set_virtual_stages(2);
  interleaved.set_schedule(INTERLEAVED_1F1B);
  interleaved.set_offload_ratio(0.5);
  Plan sharded = SmallPlan(1, 1, 1, 2);
  sharded.set_zero_stage(3);
  Plan chunks = ChunkPlanOf();
  chunks.set_data_parallel(2);
  ExpectCovered(
      InputOf(SmallModel("llama", FP32),
              {SmallPlan(2, 1, 1, 1), SmallPlan(1, 2, 1, 1), interleaved, sharded, chunks}, 2));
}

// Runs by phase, and that no backend is made but for these.
std::map<std::string, int> RunsOf(const ProfileInput& input) {
  int made = 0;
  const MakeBackend make = [&made](const ProfileInput& of) {
    ++made;
    return MakeCpuBackend(of);
  };
  Progress progress(kStepsOfGpuMeasurement);
  PhaseTimes times;
  EXPECT_TRUE(MeasureGpuProfile(input, make, SmallSizes(), &progress, &times).ok());
  std::map<std::string, int> runs;
  int all = 0;
  for (const PhaseTime& phase : times.phases()) {
    runs[phase.name] = phase.runs;
    all += phase.runs;
  }
  EXPECT_EQ(made, all);
  // Whether clocks are seen to rise after a rest is up to the machine.
  runs.erase("layers after a rest");
  return runs;
}

TEST(GpuProfile, WhatPlansShareIsMeasuredOnce) {
  const Model model = SmallModel("llama", FP32);
  const std::map<std::string, int> once = {{"layers alone", 2},
                                           {"other operators", 1},
                                           {"collectives and messages", 0},
                                           {"copies", 3},
                                           {"layers beside copies", 3},
                                           {"layers beside collectives", 0},
                                           {"Adam on the host", 4},
                                           {"rates", 2},
                                           {"host memory", 0}};
  EXPECT_EQ(RunsOf(InputOf(model, {ChunkPlanOf()})), once);
  Plan more_micro_batches = ChunkPlanOf();
  more_micro_batches.set_global_batch(16);
  EXPECT_EQ(RunsOf(InputOf(model, {ChunkPlanOf(), ChunkPlanOf(), more_micro_batches})), once);

  // Other layers run by themselves and beside copies; all else is still together.
  Plan larger = ChunkPlanOf();
  larger.set_micro_batch(2);
  std::map<std::string, int> with_larger = once;
  with_larger["layers alone"] += 1;
  with_larger["layers beside copies"] += 3;
  EXPECT_EQ(RunsOf(InputOf(model, {ChunkPlanOf(), larger})), with_larger);
}

TEST(GpuProfile, WhatPlansOfTwoRanksShareIsMeasuredOnce) {
  const Model model = SmallModel("llama", FP32);
  const std::map<std::string, int> once = RunsOf(InputOf(model, {SmallPlan(1, 1, 1, 2)}, 2));
  EXPECT_EQ(once.at("collectives and messages"), 1);
  EXPECT_EQ(once.at("copies"), 4);
  EXPECT_EQ(once.at("layers beside collectives"), 1);
  EXPECT_EQ(RunsOf(InputOf(model, {SmallPlan(1, 1, 1, 2), SmallPlan(1, 1, 1, 2)}, 2)), once);
}

TEST(LayerPlan, FewerLayersWhereTheyDoNotFit) {
  Model model = SmallModel("llama", FP32);
  model.set_layers(8);
  Cluster cluster = SmallGpus();
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

// As long as the products allow, an iteration has the model's layers and the plan's micro-batches.
TEST(LayerPlan, LayersRunAsOftenAsTheModelHasThem) {
  Model model = SmallModel("llama", FP32);
  model.set_layers(12);
  const Cluster cluster = SmallGpus();
  Plan plan = SmallPlan(1, 1, 1, 1);
  const auto lower = [&](double most_flops) {
    const ResolvedPlan resolved = ResolvePlan(model, cluster, plan, 1).value();
    return LowerFewLayers(model, cluster, resolved, {.most_flops = most_flops}).value();
  };
  const auto adams = [](const LoweredPlan& lowered) {
    return std::ranges::count_if(lowered.graph.tasks, [&](const Task& task) {
      return lowered.graph.shapes[task.shape].op == OpCode::kAdam;
    });
  };
  plan.set_micro_batch(1);
  plan.set_global_batch(8);
  const LoweredPlan once = lower(0);
  const double flops = FlopsOfRank(once.graph);
  ASSERT_EQ(once.model.layers(), kFewestLayers);
  EXPECT_EQ(once.plan.m, 2);
  EXPECT_EQ(FlopsOfRank(lower(1.5 * flops).graph), flops);
  EXPECT_EQ(lower(1.5 * flops).plan.m, 2);
  const LoweredPlan whole = lower(1e3 * flops);
  EXPECT_EQ(whole.plan.m, 4);
  // Twice the micro-batches, and three times the layers.
  EXPECT_GT(FlopsOfRank(whole.graph), 5 * flops);
  EXPECT_LT(FlopsOfRank(whole.graph), 6 * flops);
  EXPECT_EQ(adams(whole), 3 * kFewestLayers + 2);
  // Steps of the optimizer as often a micro-batch as in the plan.
  plan.set_global_batch(1);
  EXPECT_EQ(adams(lower(1e3 * flops)), 2 * (3 * kFewestLayers + 2));
}

// What joins ranks is measured by itself: no two at once, whatever lanes they have.
TEST(ProbeGraph, MeetingsComeOneAfterTheOther) {
  ProbeGraph probes(2);
  for (const OpCode op : {OpCode::kAllGather, OpCode::kSend, OpCode::kAllReduce}) {
    OpShape shape{.op = op, .dtype = Dtype::kBf16};
    shape.dims[0] = kKilobyte;
    probes.AddGroupOperation(shape, 2);
  }
  const TaskGraph graph = std::move(probes).Finish();
  ASSERT_EQ(graph.TaskCount(), 12u);
  for (RankId rank = 0; rank < 2; ++rank) {
    const TaskId begin = graph.rank_begin[rank];
    for (TaskId id = begin; id + 1 < graph.rank_begin[rank + 1]; ++id) {
      const bool is_other_lane = graph.tasks[id].lane != graph.tasks[id + 1].lane;
      EXPECT_EQ(is_other_lane, id - begin == 1 || id - begin == 3);
      const auto next = graph.Successors(id);
      ASSERT_EQ(next.size(), is_other_lane ? 1u : 0u);
      if (is_other_lane) {
        EXPECT_EQ(next[0], id + 1);
      }
    }
  }
}

// A shard that lies at its place in the whole does so in the probe, too.
TEST(ProbeGraph, OperandsOfOneBufferStayOne) {
  const Model model = SmallModel("llama", FP32);
  const Cluster cluster = SmallGpus(2);
  const ResolvedPlan plan = ResolvePlan(model, cluster, SmallPlan(1, 1, 1, 2), 2).value();
  const TaskGraph graph = Lower(model, cluster, plan, {.fold = false}).value();
  for (TaskId id = 0; id < graph.rank_begin[1]; ++id) {
    if (graph.shapes[graph.tasks[id].shape].op != OpCode::kAllGather) continue;
    ASSERT_EQ(graph.Reads(id)[0].buffer, graph.Writes(id)[0].buffer);
    std::vector<TaskId> members = {id};
    for (TaskId other = graph.rank_begin[1]; other < graph.TaskCount(); ++other) {
      if (graph.tasks[other].rendezvous == graph.tasks[id].rendezvous) members.push_back(other);
    }
    ProbeGraph probes(2);
    probes.AddRendezvous(graph, members, 3);
    const TaskGraph probe = std::move(probes).Finish();
    ASSERT_THAT(probe.tasks, SizeIs(6));
    ASSERT_THAT(probe.rendezvous, SizeIs(3));
    EXPECT_EQ(probe.Reads(0)[0].buffer, probe.Writes(0)[0].buffer);
    EXPECT_EQ(probe.slices[probe.Reads(0)[0].slice], graph.slices[graph.Reads(id)[0].slice]);
    return;
  }
  FAIL() << "no all-gather";
}

}  // namespace
}  // namespace twinstep
