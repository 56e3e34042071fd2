#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/traces/kineto/read_profile.h"
#include "tests/traces/kineto/tiny_profile.h"
#include "traces/activity.h"
#include "traces/check_trace.h"
#include "traces/kineto/kineto_import.h"
#include "traces/kineto/kineto_phase.h"
#include "traces/kineto/kineto_reader.h"

namespace twinstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

KinetoTrace TinyTrace() { return testing::ReadProfile(testing::TinyProfile()).value(); }

Trace Import(const KinetoTrace& trace, const StepChoice& choice) {
  Result<Trace> imported = ImportKineto({&trace, 1}, choice);
  EXPECT_TRUE(imported.ok());
  EXPECT_EQ(TraceProblem(imported.value()), "");
  return std::move(imported).value();
}

TEST(KinetoReaderTest, ReadsWhatPyTorchWrites) {
  const KinetoTrace trace = TinyTrace();
  EXPECT_EQ(trace.rank, 3);
  EXPECT_EQ(trace.world_size, 8);
  EXPECT_EQ(trace.base_ns, 1700000000000000000);
  EXPECT_THAT(trace.device_names, ElementsAre("NVIDIA Test"));
  ASSERT_EQ(trace.device.size(), 7u);
  for (const DeviceEvent& event : trace.device) EXPECT_NE(event.call, kNoIndex);
  const DeviceEvent& collective = trace.device[5];
  EXPECT_EQ(collective.bytes, 2048);
  EXPECT_EQ(collective.group_size, 8u);
  EXPECT_EQ(trace.names[collective.group], "1");
  EXPECT_THAT(OperatorName(trace, collective), HasSubstr("(nccl all_to_allv)"));
  EXPECT_EQ(trace.counts.events, 26);
  EXPECT_THAT(trace.counts.unknown, ElementsAre(Pair("mtia_ccp_events", 1)));
  std::int64_t all = 0;
  for (const auto* counts : {&trace.counts.read, &trace.counts.unknown, &trace.counts.skipped}) {
    for (const auto& [what, count] : *counts) all += count;
  }
  EXPECT_EQ(all, trace.counts.events);
}

TEST(KinetoReaderTest, OlderWordsMeanTheSame) {
  const std::string text = R"json([
{"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":1,"tid":"1","ts":1,"dur":1,
 "args":{"correlation":5}},
{"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":"stream 7","ts":3,"dur":2,
 "args":{"stream":7,"correlation":5,"device":0}},
{"ph":"X","cat":"Memcpy","name":"Memcpy DtoD (Device -> Device)","pid":0,"tid":7,"ts":5,"dur":2,
 "args":{"stream":7}},
{"ph":"X","cat":"Operator","name":"ProfilerStep#4","pid":1,"tid":"1","ts":0,"dur":9}])json";
  const KinetoTrace trace = testing::ReadProfile(text).value();
  ASSERT_EQ(trace.device.size(), 2u);
  EXPECT_EQ(trace.device[0].call, 0u);
  EXPECT_EQ(trace.device[1].call, kNoIndex);
  EXPECT_EQ(trace.device[1].kind, DeviceKind::kMemcpy);
  ASSERT_EQ(trace.steps.size(), 1u);
  EXPECT_EQ(trace.steps[0].number, 4);
}

TEST(KinetoReaderTest, BadTimesAndNothingAtAllAreErrors) {
  EXPECT_EQ(testing::ReadProfile("[]").error().message,
            "f: holds no kernel, copy, call, operator or other span (0 events)");
  EXPECT_EQ(testing::ReadProfile(R"([{"ph":"X","name":"k","cat":"kernel","ts":-3,"dur":1}])")
                .error()
                .message,
            "f: event 0 (k) has a negative time: it begins at -3000 ns and lasts 1000 ns");
  EXPECT_THAT(testing::ReadProfile(R"([{"ph":"X","name":"k","cat":"kernel","ts":3,"dur":-1}])")
                  .error()
                  .message,
              HasSubstr("negative"));
  EXPECT_THAT(testing::ReadProfile(R"([{"ph":"X","name":"k","ts":9000000000000000,"dur":1}])")
                  .error()
                  .message,
              HasSubstr("146 years"));
}

TEST(KinetoReaderTest, NamesBecomeUtf8) {
  const KinetoTrace trace =
      testing::ReadProfile(
          "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\xff\xc3\xa9\xed\xa0\x80z\",\"ts\":1,"
          "\"dur\":1}]")
          .value();
  EXPECT_EQ(trace.names[0], "a?\xc3\xa9???z");
}

TEST(KinetoPhaseTest, LaunchesSayWhichPhase) {
  EXPECT_THAT(PhasesOfDeviceEvents(TinyTrace()),
              ElementsAre(Phase::kForward, Phase::kBackward, Phase::kForward, Phase::kForward,
                          Phase::kRecompute, Phase::kBackward, Phase::kOptimizer));
}

TEST(KinetoPhaseTest, NothingSaysThePhaseWithoutOperators) {
  const auto phases = [](const std::string& more) {
    return PhasesOfDeviceEvents(
        testing::ReadProfile(
            R"([{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","tid":1,"ts":10,"dur":2,)"
            R"("args":{"correlation":1}},)"
            R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","tid":1,"ts":20,"dur":2,)"
            R"("args":{"correlation":2}},)"
            R"({"ph":"X","cat":"kernel","name":"gemm","ts":15,"dur":3,"args":{"correlation":1}},)"
            R"({"ph":"X","cat":"kernel","name":"add","ts":25,"dur":3,"args":{"correlation":2}},)"
            R"({"ph":"X","cat":"kernel","name":"mul","ts":35,"dur":3})" +
            more + "]")
            .value());
  };
  const std::optional<Phase> unknown, forward = Phase::kForward;
  EXPECT_THAT(phases(""), ElementsAre(unknown, unknown, unknown));
  // A step's mark is around everything.
  EXPECT_THAT(phases(R"(,{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","tid":1,)"
                     R"("ts":0,"dur":90})"),
              ElementsAre(unknown, unknown, unknown));
  // An operator is the forward's in a profile without a backward.
  EXPECT_THAT(phases(R"(,{"ph":"X","cat":"cpu_op","name":"aten::mm","tid":1,"ts":9,"dur":5})"),
              ElementsAre(forward, unknown, unknown));
  // Beside a backward all others are, as far as their launches are known.
  EXPECT_THAT(phases(R"(,{"ph":"X","cat":"cpu_op","name":"MmBackward0","tid":1,"ts":19,"dur":5})"),
              ElementsAre(forward, Phase::kBackward, unknown));
}

TEST(KinetoWindowTest, StepsAreCutWhereTheDeviceBeginsThem) {
  const KinetoTrace trace = TinyTrace();
  const KinetoWindow first = ChooseWindow(trace, {.number = 1}).value();
  EXPECT_EQ(first.start_ns, 1020'000);
  EXPECT_EQ(first.end_ns, 1420'500);
  EXPECT_EQ(first.device.size(), 2u);
  const KinetoWindow second = ChooseWindow(trace, {.number = 2}).value();
  EXPECT_EQ(second.start_ns, 1420'500);
  EXPECT_EQ(second.end_ns, 1670'500);
  EXPECT_EQ(second.device.size(), 5u);
  // Of two steps the shorter one.
  EXPECT_EQ(ChooseWindow(trace, {}).value().step, 2);
  const KinetoWindow whole = ChooseWindow(trace, {.whole = true, .number = {}}).value();
  EXPECT_EQ(whole.start_ns, 1005'000);
  EXPECT_EQ(whole.end_ns, 1670'500);
  EXPECT_EQ(ChooseWindow(trace, {.number = 7}).error().message, "f: has no step 7 (steps: 1, 2)");
}

TEST(KinetoImportTest, PartsAddUpToTheIteration) {
  const Trace trace = Import(TinyTrace(), {.number = 2});
  EXPECT_EQ(trace.origin(), Trace::IMPORTED);
  EXPECT_EQ(trace.ranks(0).global_rank(), 3u);
  EXPECT_EQ(trace.iteration_ps(), 250'000'000);
  const Activity activity = SummarizeActivity(trace);
  ASSERT_EQ(activity.ranks.size(), 1u);
  EXPECT_THAT(activity.ranks[0].part_ps,
              ElementsAre(210'500'000, 10'000'000, 10'000'000, 19'500'000));
  const auto of = [&activity](OperatorClass x) {
    return activity.classes[static_cast<std::size_t>(x)];
  };
  EXPECT_EQ(of(OperatorClass::kGemm).tasks, 2);
  EXPECT_DOUBLE_EQ(of(OperatorClass::kGemm).busy_s, 150.5e-6);
  EXPECT_DOUBLE_EQ(of(OperatorClass::kOptimizer).busy_s, 60e-6);
  EXPECT_DOUBLE_EQ(of(OperatorClass::kAllToAll).busy_s, 30e-6);
  EXPECT_DOUBLE_EQ(of(OperatorClass::kAllToAll).exposed_s, 10e-6);
  EXPECT_DOUBLE_EQ(of(OperatorClass::kAllToAll).OverlappedSeconds(), 20e-6);
  EXPECT_DOUBLE_EQ(of(OperatorClass::kH2D).exposed_s, 10e-6);
  EXPECT_EQ(activity.unknown, 1);
}

TEST(KinetoImportTest, WithoutADeviceThreadsAreTheLanes) {
  const KinetoTrace trace =
      testing::ReadProfile(
          R"([{"ph":"X","cat":"cpu_op","name":"aten::linear","pid":1,"tid":1,"ts":0,"dur":10},
               {"ph":"X","cat":"cpu_op","name":"aten::addmm","pid":1,"tid":1,"ts":2,"dur":5},
               {"ph":"X","cat":"user_annotation","name":"gloo:all_reduce","pid":1,"tid":2,
                "ts":5,"dur":15},
               {"ph":"X","cat":"user_annotation","name":"mark","pid":1,"tid":2,"ts":5,"dur":1}])")
          .value();
  const Trace imported = Import(trace, {});
  EXPECT_EQ(imported.task_size(), 2);
  const Activity activity = SummarizeActivity(imported);
  EXPECT_THAT(activity.ranks[0].part_ps, ElementsAre(10'000'000, 10'000'000, 0, 0));
}

TEST(KinetoImportTest, RanksOfOneClockKeepIt) {
  std::vector<KinetoTrace> files = {TinyTrace(), TinyTrace()};
  files[1].rank = 4;
  files[1].base_ns += 1'000;
  const Trace together = ImportKineto(files, {.number = 2}).value();
  EXPECT_EQ(together.iteration_ps(), 251'000'000);
  EXPECT_EQ(together.ranks(1).global_rank(), 4u);
  EXPECT_EQ(together.start_ps(0), 0);
  EXPECT_EQ(together.start_ps(together.task_size() / 2), 1'000'000);
  for (const RankActivity& rank : SummarizeActivity(together).ranks) {
    Picoseconds sum = 0;
    for (const Picoseconds part : rank.part_ps) sum += part;
    EXPECT_EQ(sum, together.iteration_ps());
  }
  // Another day's clock: both begin at 0.
  files[1].base_ns += 86'400'000'000'000;
  const Trace apart = ImportKineto(files, {.number = 2}).value();
  EXPECT_EQ(apart.iteration_ps(), 250'000'000);
}

}  // namespace
}  // namespace twinstep
