// A profile has an entry for every primitive of the graphs it was made for, and the cost model
// finds each of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "exec/profile/build_profile.h"
#include "exec/profile/fewer_micro_batches.h"
#include "exec/profile/machine.h"
#include "exec/profile/measure_plan.h"
#include "hw_specs/validate_cluster.h"
#include "hw_specs/validate_profile.h"
#include "sim/cost/graph_costs.h"
#include "sim/textproto/text_file.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct NamedRun {
  std::string name;
  Model model;
  Plan plan;
};

std::vector<NamedRun> Runs() {
  std::vector<NamedRun> runs;
  runs.push_back({"plain", SmallModel("llama-gqa", FP32), SmallPlan(1, 1, 1, 1)});
  runs.push_back({"all sizes", SmallModel("gpt", FP64), SmallPlan(2, 2, 2, 2)});
  Plan offload = SmallPlan(1, 1, 4, 2);
  offload.set_offload_ratio(0.6);
  offload.set_zero_stage(3);
  runs.push_back({"offload", SmallModel("llama-tied", FP32), offload});
  Plan chunked = SmallPlan(2, 1, 2, 1);
  chunked.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
  chunked.set_virtual_stages(2);
  chunked.set_recompute(RECOMPUTE_BALANCED);
  runs.push_back({"chunked", SmallModel("llama", BF16), chunked});
  Plan unfused = SmallPlan(1, 2, 1, 2);
  unfused.set_zero_stage(2);
  unfused.set_attention(ATTENTION_UNFUSED);
  unfused.set_data_parallel_overlap(true);
  Model dropout = SmallModel("gpt-untied", FP32);
  dropout.mutable_recipe()->set_hidden_dropout(0.1);
  dropout.mutable_recipe()->set_clip_norm(1);
  runs.push_back({"unfused", dropout, unfused});
  // With one micro-batch it would need a fourth buffer.
  Plan chunks = SmallPlan(1, 1, 1, 1);
  chunks.set_persistent_chunks(0);
  chunks.set_chunk_buffers(3);
  chunks.set_chunk_bytes(36 << 10);
  runs.push_back({"chunks", SmallModel("llama-tied", FP32), chunks});
  return runs;
}

LoweredPlan LowerOrFail(const NamedRun& run) {
  Result<LoweredPlan> lowered =
      LowerForRun(run.model, SmallCluster(), ResolveOrDie(run.model, run.plan));
  EXPECT_TRUE(lowered.ok()) << run.name;
  return std::move(lowered).value();
}

Cluster TestMachine() {
  return MachineCluster({.cpu = "test", .cores = 2, .memory_bytes = std::int64_t{1} << 34},
                        {.fp32_flops_per_s = 1e11,
                         .fp64_flops_per_s = 5e10,
                         .thread_bytes_per_s = 1e10,
                         .dram_bytes_per_s = 2e10,
                         .copy_bytes_per_s = 5e9});
}

TEST(ProfileTest, EveryTaskFindsAnEntry) {
  for (const NamedRun& run : Runs()) {
    const LoweredPlan lowered = LowerOrFail(run);
    PrimitiveSamples samples;
    const Status done = MeasurePlan(lowered, {.threads = 2, .seconds = 0.01}, &samples);
    ASSERT_TRUE(done.ok()) << run.name << ": " << done.error().message;
    Profile profile = BuildEntries(samples);
    *profile.mutable_measured_on() = TestMachine();
    const Coverage coverage = CoverageOf(profile, lowered.graph);
    EXPECT_THAT(coverage.missing, IsEmpty()) << run.name;
    EXPECT_EQ(coverage.measured, samples.times.size()) << run.name;

    Cluster cluster = TestMachine();
    const Result<GraphCosts> costs = ComputeCosts(lowered.graph, run.model, cluster, &profile);
    ASSERT_TRUE(costs.ok()) << run.name << ": " << costs.error().message;
    EXPECT_THAT(costs.value().warnings, IsEmpty()) << run.name;
    for (TaskId id = 0; id < lowered.graph.TaskCount(); ++id) {
      EXPECT_FALSE(costs.value().Of(id).extrapolated)
          << run.name << ": " << lowered.graph.TaskName(id);
    }
    for (const OperatorSample& sample : profile.operators()) {
      EXPECT_GT(sample.median_s(), 0) << sample.op();
      EXPECT_GT(sample.busy_median_s(), 0) << sample.op();
      EXPECT_GT(sample.samples(), 0) << sample.op();
    }
    EXPECT_GT(profile.dispatch_s(), 0);

    // It is read again as it was written.
    const Result<ParsedText<Profile>> read = ParseText<Profile>(ProfileText(profile), run.name);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read.value().message.SerializeAsString(), profile.SerializeAsString());
    const Status valid = ValidateProfile(read.value().message, read.value().source);
    EXPECT_TRUE(valid.ok()) << valid.error().message;
  }
}

TEST(ProfileTest, CostsAreTheMedians) {
  const NamedRun run = Runs().front();
  const LoweredPlan lowered = LowerOrFail(run);
  PrimitiveSamples samples;
  // Times that no machine has, one for each primitive.
  std::map<std::string, double> expected;
  double seconds = 0.001;
  for (const Primitive& primitive : PrimitivesOf(lowered.graph)) {
    samples.times[primitive] = {.alone_s = {seconds, seconds, 50}, .busy_s = {2 * seconds}};
    seconds += 0.001;
  }
  Profile profile = BuildEntries(samples);
  const Result<GraphCosts> costs = ComputeCosts(lowered.graph, run.model, TestMachine(), &profile);
  ASSERT_TRUE(costs.ok()) << costs.error().message;
  for (TaskId id = 0; id < lowered.graph.TaskCount(); ++id) {
    const auto primitive = PrimitiveOf(lowered.graph, id);
    ASSERT_TRUE(primitive.has_value());
    if (primitive->group_size > 0) continue;
    EXPECT_NEAR(static_cast<double>(costs.value().Of(id).fixed_ps),
                samples.times.at(*primitive).alone_s[0] * 1e12, 1)
        << lowered.graph.TaskName(id);
  }
}

TEST(ProfileTest, AGraphOfAnotherPlanIsMissed) {
  const std::vector<NamedRun> runs = Runs();
  PrimitiveSamples samples;
  ASSERT_TRUE(MeasurePlan(LowerOrFail(runs[0]), {.threads = 1, .seconds = 0.01}, &samples).ok());
  const Profile profile = BuildEntries(samples);
  EXPECT_EQ(profile.operators(0).busy_median_s(), 0);  // One thread has no company.
  const Coverage coverage = CoverageOf(profile, LowerOrFail(runs[1]).graph);
  EXPECT_THAT(coverage.missing, testing::Contains(HasSubstr("all_gather of ")));
}

TEST(FewerMicroBatchesTest, HaveAllPrimitives) {
  for (const NamedRun& run : Runs()) {
    const LoweredPlan whole = LowerOrFail(run);
    const std::vector<Primitive> primitives = PrimitivesOf(whole.graph);
    const std::int64_t m = whole.plan.m;
    const LoweredPlan shorter = WithFewestMicroBatches(LowerOrFail(run), SmallCluster());
    EXPECT_LT(shorter.plan.m, m) << run.name;
    EXPECT_EQ(PrimitivesOf(shorter.graph), primitives) << run.name;
    EXPECT_LT(EstimateSerialSeconds(shorter.graph), EstimateSerialSeconds(whole.graph));
    PrimitiveSamples samples;
    const Status done = MeasurePlan(shorter, {.threads = 2, .seconds = 0.01}, &samples);
    ASSERT_TRUE(done.ok()) << run.name << ": " << done.error().message;
    EXPECT_THAT(CoverageOf(BuildEntries(samples), whole.graph).missing, IsEmpty()) << run.name;
  }
}

Profile Measured(const std::string& op, double seconds, const std::string& run) {
  Profile profile;
  profile.set_machine("m");
  profile.add_versions("v");
  profile.add_options("threads 2");
  profile.add_runs(run);
  OperatorSample* sample = profile.add_operators();
  sample->set_op(op);
  sample->set_dtype("fp32");
  sample->add_dims(8);
  sample->set_median_s(seconds);
  return profile;
}

TEST(MergeProfileTest, NewEntriesReplaceAndOthersStay) {
  Profile profile = Measured("add", 1, "first");
  *profile.add_operators() = Measured("adam", 2, "").operators(0);
  const Profile more = Measured("adam", 3, "second");
  ASSERT_TRUE(MergeProfile(more, &profile).ok());
  ASSERT_EQ(profile.operators_size(), 2);
  std::map<std::string, double> seconds;
  for (const OperatorSample& sample : profile.operators()) seconds[sample.op()] = sample.median_s();
  EXPECT_EQ(seconds["add"], 1);
  EXPECT_EQ(seconds["adam"], 3);
  EXPECT_THAT(profile.runs(), ElementsAre("first", "second"));
}

TEST(MergeProfileTest, PartsOfPairsAreEntriesOfTheirOwn) {
  PrimitiveSamples samples;
  const OpShape add{.op = OpCode::kAdd, .dims = {8, 8}};
  samples.times[{.shape = add}].alone_s = {1e-3};
  samples.times[{.shape = add, .fusion = Fusion::kWithPrevious}].alone_s = {1e-6};
  Profile profile = BuildEntries(samples);
  profile.set_fused_pairs(Profile::ALL_PAIRS);
  ASSERT_EQ(profile.operators_size(), 2);
  EXPECT_EQ(profile.operators(0).fusion(), OperatorSample::ALONE);
  EXPECT_EQ(profile.operators(1).fusion(), OperatorSample::WITH_PREVIOUS);
  samples.times.erase({.shape = add});
  Profile more = BuildEntries(samples);
  more.set_fused_pairs(Profile::ALL_PAIRS);
  ASSERT_TRUE(MergeProfile(more, &profile).ok());
  EXPECT_EQ(profile.operators_size(), 2);
  EXPECT_EQ(SpreadOf(more).at, "add bf16 8 8 with_previous");
  // Entries that do not tell their parts are no others' company.
  more.clear_fused_pairs();
  const Status status = MergeProfile(more, &profile);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("fused_pairs 'ALL_PAIRS', and this is 'UNTOLD'"));
}

TEST(MergeProfileTest, OneProfileHasOneProvenance) {
  Profile profile = Measured("add", 1, "first");
  Profile other = Measured("add", 1, "first");
  other.set_options(0, "threads 4");
  const Status status = MergeProfile(other, &profile);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("options 'threads 2', and this is 'threads 4'"));
  other = Measured("add", 1, "first");
  other.set_machine("another");
  EXPECT_FALSE(MergeProfile(other, &profile).ok());
}

TEST(MachineTest, ReadsWhatLinuxSays) {
  EXPECT_EQ(CpuModel("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9554\nmodel name: x\n"),
            "AMD EPYC 9554");
  EXPECT_EQ(CpuModel("processor : 0\n"), "");
  EXPECT_EQ(MemoryLine("MemTotal:       24684096 kB\nMemFree: 1 kB\n", "MemTotal"),
            24684096LL * 1024);
  EXPECT_EQ(MemoryLine("MemFree: 1 kB\n", "MemTotal"), 0);
  const Machine machine = ReadMachine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 0);
  EXPECT_NE(machine.cpu, "");
  const Status valid = ValidateCluster(TestMachine());
  EXPECT_TRUE(valid.ok()) << valid.error().message;
}

}  // namespace
}  // namespace twinstep
