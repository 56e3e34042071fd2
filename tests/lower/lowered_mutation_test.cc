// Breaks graphs of every schedule and option in many ways; the verifier reports each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/mutation.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

TEST(LoweredMutation, EveryNeededEdgeAndEveryBreakIsReported) {
  std::uint32_t needed = 0;
  for (const MatrixCase& test_case : PlanMatrix()) {
    const TaskGraph graph = LowerOrDie(test_case.model, test_case.plan, false);
    const MutationReport report = TestMutations(graph, {.seed = 7, .edges = 12, .mutants = 1});
    EXPECT_THAT(report.failures, testing::IsEmpty()) << test_case.name;
    needed += report.edges_needed;
  }
  EXPECT_GT(needed, 200u);
}

}  // namespace
}  // namespace twinstep
