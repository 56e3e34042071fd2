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

}  // namespace
}  // namespace twinstep
