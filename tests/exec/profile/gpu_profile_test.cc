// The measurement of a GPU, on the CPU backend in its place: it covers every primitive of a plan,
// and its profile is one that the simulator takes.
#include "exec/profile/gpu_profile.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "exec/profile/build_profile.h"
#include "sim/textproto/text_file.h"
#include "tests/exec/profile/cpu_as_gpu.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::IsSupersetOf;

MATCHER_P(EqualsProfile, profile, "") {
  return google::protobuf::util::MessageDifferencer::Equals(arg, profile);
}

Plan ChunkPlanOf() {
  Plan plan = SmallPlan(1, 1, 1, 1);
  plan.set_persistent_chunks(1);
  plan.set_chunk_buffers(3);
  plan.set_checkpointed_blocks(2);
  return plan;
}

TEST(GpuProfile, CoversWhatPlansDoAndIsSimulated) {
  ProbeSizes sizes = SmallSizes();
  // Each chunk is of more, as those of a model of 13 B are: CPU Adam is measured all the same.
  sizes.adam_elements = 16;
  ExpectCovered(GpuProfileInput(SmallModel("llama", FP32), {SmallPlan(1, 1, 1, 1), ChunkPlanOf()}),
                nullptr, sizes);
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
  ExpectCovered(GpuProfileInput(
      SmallModel("llama", FP32),
      {SmallPlan(2, 1, 1, 1), SmallPlan(1, 2, 1, 1), interleaved, sharded, chunks}, 2));
}

// Layers that keep everything have each sum in its product; a plan that drops or offloads something
// has others, too, and SiLUs that are written.
TEST(GpuProfile, TellsPartsOfPairsApart) {
  Plan offload = SmallPlan(1, 1, 2, 1);
  offload.set_virtual_stages(2);
  offload.set_schedule(INTERLEAVED_1F1B);
  offload.set_offload_ratio(1);
  Profile profile;
  ExpectCovered(GpuProfileInput(SmallModel("llama", FP32), {offload}, 2), &profile);
  EXPECT_EQ(profile.fused_pairs(), Profile::ALL_PAIRS);
  std::set<std::string> parts;
  for (const OperatorSample& sample : profile.operators()) {
    parts.insert(sample.op() + " " + OperatorSample::Fusion_Name(sample.fusion()));
  }
  EXPECT_THAT(parts, IsSupersetOf({"add ALONE", "add WITH_PREVIOUS", "gemm_forward ALONE",
                                   "gemm_forward GEMM_ADD", "silu_forward WITH_NEXT",
                                   "mul_forward SWIGLU", "mul_forward SWIGLU_WITH_SILU",
                                   "mul_backward WITH_NEXT", "silu_backward SWIGLU_BACKWARD"}));
  const auto read = ParseText<Profile>(ProfileText(profile), "profile.textproto");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_THAT(read.value().message, EqualsProfile(profile));

  ProfileInput deterministic = GpuProfileInput(SmallModel("llama", FP32), {SmallPlan(1, 1, 1, 1)});
  deterministic.deterministic = true;
  ExpectCovered(deterministic, &profile);
  EXPECT_EQ(profile.fused_pairs(), Profile::SAME_BITS);
  for (const OperatorSample& sample : profile.operators()) {
    EXPECT_NE(sample.fusion(), OperatorSample::GEMM_ADD);
  }
}

// Runs by phase, and that no backend is made but for these.
std::map<std::string, int> RunsOf(const ProfileInput& input) {
  int made = 0;
  const MakeBackend make = [&made](const ProfileInput& of, PairRule most_pairs, int first_gpu) {
    ++made;
    return MakeCpuBackend(of, most_pairs, first_gpu);
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
  // Layers warm up, are measured, and once more without pairs: where blocks are checkpointed some
  // sums lie in the place of what products read.
  const std::map<std::string, int> once = {{"layers alone", 3},
                                           {"other operators", 1},
                                           {"collectives and messages", 0},
                                           {"copies", 3},
                                           {"layers beside copies", 3},
                                           {"layers beside collectives", 0},
                                           {"Adam on the host", 4},
                                           {"rates", 2},
                                           {"host memory", 0}};
  EXPECT_EQ(RunsOf(GpuProfileInput(model, {ChunkPlanOf()})), once);
  Plan more_micro_batches = ChunkPlanOf();
  more_micro_batches.set_global_batch(16);
  EXPECT_EQ(RunsOf(GpuProfileInput(model, {ChunkPlanOf(), ChunkPlanOf(), more_micro_batches})),
            once);

  // Other layers run by themselves and beside copies; all else is still together.
  Plan larger = ChunkPlanOf();
  larger.set_micro_batch(2);
  std::map<std::string, int> with_larger = once;
  with_larger["layers alone"] += 1;
  with_larger["layers beside copies"] += 3;
  EXPECT_EQ(RunsOf(GpuProfileInput(model, {ChunkPlanOf(), larger})), with_larger);
}

TEST(GpuProfile, WhatPlansOfTwoRanksShareIsMeasuredOnce) {
  const Model model = SmallModel("llama", FP32);
  const std::map<std::string, int> once =
      RunsOf(GpuProfileInput(model, {SmallPlan(1, 1, 1, 2)}, 2));
  EXPECT_EQ(once.at("collectives and messages"), 1);
  EXPECT_EQ(once.at("copies"), 11);  // Eight of them of both GPUs.
  EXPECT_EQ(once.at("layers beside collectives"), 1);
  EXPECT_EQ(RunsOf(GpuProfileInput(model, {SmallPlan(1, 1, 1, 2), SmallPlan(1, 1, 1, 2)}, 2)),
            once);
}

}  // namespace
}  // namespace twinstep
