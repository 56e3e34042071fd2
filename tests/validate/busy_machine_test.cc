#include "validate/busy_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/traces/tiny_graph.h"
#include "traces/trace_builder.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;
using testing::MakeTinyRun;
using testing::TinyTask;

// One rank that adds, then multiplies, so many picoseconds each.
Trace TraceOf(const std::vector<Picoseconds>& adds, const std::vector<Picoseconds>& products,
              Picoseconds copy = 0) {
  std::vector<TinyTask> tasks;
  Picoseconds now = 0;
  const auto append = [&](TinyTask task, Picoseconds time) {
    task.ready_ps = task.start_ps = now;
    task.end_ps = now += time;
    tasks.push_back(task);
  };
  for (const Picoseconds time : adds) append({.op = OpCode::kAdd}, time);
  for (const Picoseconds time : products) append({.op = OpCode::kMulForward}, time);
  append({.op = OpCode::kCopyH2D, .kind = TaskKind::kH2D, .lane = Lane::kH2D}, copy);
  const auto run = MakeTinyRun({tasks});
  return BuildTrace(run.graph, run.replay, "tiny");
}

TEST(BusyMachineTest, SomeTasksOfAKindTookFarLonger) {
  const Trace simulated = TraceOf({10, 10, 10, 10, 10}, {100, 100, 100, 100, 100});
  // 11 + 120 is the rule; one of each kind was interrupted.
  const Trace executed = TraceOf({11, 11, 411, 11, 11}, {120, 120, 120, 120, 1120});
  const auto busy = LookForOtherWork(simulated, executed);
  ASSERT_TRUE(busy);
  EXPECT_DOUBLE_EQ(busy->excess, 1400.0 / 2055);
  EXPECT_DOUBLE_EQ(busy->sum_error, 550.0 / 2055 - 1);
  EXPECT_NEAR(busy->median_error, 1 / 1.2 - 1, 1e-12);
  EXPECT_THAT(busy->Text(), HasSubstr("busy with other work: 68.1 %"));
  EXPECT_THAT(busy->Text(), HasSubstr("error of the median task -16.7 %, of the sum -73.2 %"));
}

TEST(BusyMachineTest, ASimulationThatIsWrongAboutAnOperatorIsNoOtherWork) {
  const Trace simulated = TraceOf({10, 10, 10}, {100, 200, 100});
  EXPECT_FALSE(LookForOtherWork(simulated, TraceOf({30, 30, 30}, {100, 200, 100})));
  EXPECT_FALSE(LookForOtherWork(simulated, TraceOf({10, 10, 10}, {250, 500, 250})));
  // Nor is one about copies.
  EXPECT_FALSE(LookForOtherWork(simulated, TraceOf({10, 10, 10}, {100, 200, 100}, 9000)));
  // Some per cent are everyday's.
  EXPECT_FALSE(LookForOtherWork(simulated, TraceOf({10, 11, 12}, {100, 215, 120})));
}

TEST(BusyMachineTest, TasksWithoutTimeAreNoEvidence) {
  EXPECT_FALSE(LookForOtherWork(TraceOf({0, 0}, {0}), TraceOf({5, 500}, {7})));
  EXPECT_FALSE(LookForOtherWork(TraceOf({5, 5}, {5}), TraceOf({0, 0}, {0})));
}

}  // namespace
}  // namespace twinstep
