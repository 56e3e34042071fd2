// Files of other programs: what is read of each, how busy its device is, and that a replay without
// change takes as long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "traces/activity.h"
#include "traces/check_trace.h"
#include "traces/open_trace.h"
#include "traces/work_replay.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;

std::string Sample(const std::string& name) { return "tests/traces/samples/" + name; }

struct Expected {
  const char* file;
  std::int64_t events, kernels;
  double kernels_ms;
  std::int64_t copies;
};

constexpr Expected kProfiles[] = {
    {"alexnet.json.gz", 1408, 79, 10.692, 16},
    {"cuda_event_sync.json.gz", 92, 4, 0.049, 1},
    {"cuda_event_sync_multi_stream.json.gz", 149, 3, 0.369, 0},
    {"mi250_minitoy_train_ROCm6_2_kineto.json.gz", 220, 14, 0.1109, 2},
    {"triton_example.json.gz", 71, 1, 0.0018, 0},
};

ReadCount CountOf(const ReadReport& report, const std::string& what) {
  for (const ReadCount& count : report.read) {
    if (count.what == what) return count;
  }
  return {what, 0, 0};
}

TEST(SamplesTest, WhatIsReadOfProfiles) {
  for (const Expected& expected : kProfiles) {
    SCOPED_TRACE(expected.file);
    const Result<OpenedTrace> opened = OpenTrace(Sample(expected.file), {});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ(TraceProblem(opened.value().trace), "");
    const ReadReport& report = opened.value().report;
    EXPECT_EQ(report.events, expected.events);
    EXPECT_EQ(CountOf(report, "kernels").events, expected.kernels);
    EXPECT_NEAR(1e3 * CountOf(report, "kernels").time_s, expected.kernels_ms, 6e-5);
    EXPECT_EQ(CountOf(report, "copies").events, expected.copies);
    std::int64_t all = 0;
    for (const auto* counts : {&report.read, &report.unknown, &report.skipped}) {
      for (const ReadCount& count : *counts) all += count.events;
    }
    EXPECT_EQ(all, report.events);  // Each event is somewhere.
  }
}

TEST(SamplesTest, AReplayWithoutChangeIsTheTrace) {
  for (const Expected& expected : kProfiles) {
    SCOPED_TRACE(expected.file);
    const Result<OpenedWork> opened = OpenWork(Sample(expected.file), {});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const Result<WorkReplay> run = ReplayWork(opened.value().work, {});
    ASSERT_TRUE(run.ok()) << run.error().message;
    const auto traced = static_cast<double>(opened.value().work.iteration_ps);
    EXPECT_NEAR(static_cast<double>(run.value().makespan_ps) / traced, 1, 0.03);
  }
}

TEST(SamplesTest, OfAHostAlone) {
  const OpenedTrace opened = OpenTrace(Sample("cpu_only.json.gz"), {}).value();
  const Activity activity = SummarizeActivity(opened.trace);
  EXPECT_EQ(activity.classes[static_cast<std::size_t>(OperatorClass::kAllReduce)].tasks, 10);
  EXPECT_THAT(opened.report.remarks[0], HasSubstr("no event on a device"));
}

TEST(SamplesTest, ChakraFilesOfFourRanks) {
  const OpenedTrace opened = OpenTrace(Sample("all_gather"), {}).value();
  EXPECT_EQ(opened.trace.ranks_size(), 4);
  EXPECT_EQ(opened.trace.task_size(), 4);
  EXPECT_EQ(opened.trace.operators(0), "nccl all_gather");
  EXPECT_EQ(opened.trace.bytes(0), 1 << 20);
}

}  // namespace
}  // namespace twinstep
