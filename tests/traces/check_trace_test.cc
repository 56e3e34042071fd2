#include "traces/check_trace.h"

#include <gtest/gtest.h>

#include "tests/traces/tiny_graph.h"
#include "traces/trace_builder.h"

namespace twinstep {
namespace {

Trace TinyTrace() {
  const testing::TinyRun run = testing::TwoRankRun();
  return BuildTrace(run.graph, run.replay, "two ranks");
}

TEST(CheckTraceTest, ColumnsOfTheGraphFit) {
  Trace trace = TinyTrace();
  EXPECT_EQ(TraceProblem(trace), "");
  trace.add_dependency(1);
  EXPECT_EQ(TraceProblem(trace), "column dependency has 9 entries, dependency_count adds up to 8");
  trace = TinyTrace();
  trace.set_shape(0, 99);
  EXPECT_EQ(TraceProblem(trace), "column shape holds 99, there are 2");
  trace = TinyTrace();
  trace.add_rendezvous(0);
  EXPECT_EQ(TraceProblem(trace), "column rendezvous has 11 entries, task has 10");
}

TEST(CheckTraceTest, TimesIdsAndRanksFit) {
  Trace trace = TinyTrace();
  trace.set_iteration_ps(trace.end_ps(0) - 1);
  EXPECT_EQ(TraceProblem(trace).substr(0, 14), "task 0 runs fr");
  trace = TinyTrace();
  trace.set_start_ps(3, -1);
  EXPECT_NE(TraceProblem(trace), "");
  trace = TinyTrace();
  trace.set_start_ps(3, trace.end_ps(3) + 1);
  EXPECT_NE(TraceProblem(trace), "");
  trace = TinyTrace();
  trace.set_task(3, trace.task(2));
  EXPECT_EQ(TraceProblem(trace), "task 2 stands in it twice");
  trace = TinyTrace();
  trace.mutable_ranks(1)->set_global_rank(trace.ranks(0).global_rank());
  EXPECT_EQ(TraceProblem(trace), "rank 0 stands in it twice");
  EXPECT_EQ(TraceProblem(Trace()), "holds no task");
}

}  // namespace
}  // namespace twinstep
