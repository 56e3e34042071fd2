// Every plan of the matrix, folded and unfolded, is a correct program.

#include "tests/lower/plan_matrix.h"

#include <gtest/gtest.h>

#include "sim/graph/verifier.h"

namespace twinstep {
namespace {

TEST(PlanMatrix, IsVerified) {
  for (const MatrixCase& test_case : PlanMatrix()) {
    for (const bool fold : {false, true}) {
      const TaskGraph graph = LowerOrDie(test_case.model, test_case.plan, fold);
      const std::optional<Violation> violation = Verify(graph);
      EXPECT_FALSE(violation) << test_case.name << (fold ? " folded" : "") << ": "
                              << violation->message;
    }
  }
}

}  // namespace
}  // namespace twinstep
