// ProTrain's closed form beside the replay: within 3 % where the paper's assumptions hold (each
// stream has its own way, kernels do not suffer from copies, no swaps). Where they do not, see
// protrain_report and its reasons.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/simulate/protrain_runs.h"

namespace twinstep {
namespace {

TEST(ProTrainClosedFormTest, WithinThreePercentWhereItsAssumptionsHold) {
  int cases = 0;
  for (const ClosedFormCase& x : ClosedFormCases()) {
    if (!x.assumptions_hold) continue;
    ++cases;
    const Report report = Simulate(x.run);
    ASSERT_TRUE(report.results && report.closed_form);
    EXPECT_LE(std::abs(TimeDeviation(report)), 0.03)
        << x.what << ", batch " << x.run.batch << ", persistent " << x.run.persistent
        << ", buffers " << x.run.buffers;
    EXPECT_LE(std::abs(MemoryDeviation(report)), 0.03);
  }
  EXPECT_GE(cases, 20);
}

// Neither copies that share links nor kernels that suffer from them are in the formulas: what they
// leave out is bounded, and they hardly say too much.
TEST(ProTrainClosedFormTest, LeavesOutContention) {
  for (const ClosedFormCase& x : ClosedFormCases()) {
    if (x.assumptions_hold) continue;
    const Report report = Simulate(x.run);
    ASSERT_TRUE(report.results && report.closed_form);
    EXPECT_LT(TimeDeviation(report), x.most) << x.what;
    EXPECT_GT(TimeDeviation(report), -0.25) << x.what;
  }
}

// The terms that are in the total add up to it.
TEST(ProTrainClosedFormTest, TermsAddUp) {
  const Report report = Simulate(
      ChunkRun{.batch = 4, .persistent = 3, .buffers = 8, .swapped = 8, .checkpointed = 40});
  double seconds = 0, bytes = 0;
  for (const ClosedFormTerm& term : report.closed_form->times) {
    if (term.in_total) seconds += term.value;
  }
  for (const ClosedFormTerm& term : report.closed_form->memory) {
    if (term.in_total) bytes += term.value;
  }
  EXPECT_NEAR(seconds, report.closed_form->iteration_s, 1e-9 * seconds);
  EXPECT_NEAR(bytes, report.closed_form->peak_gpu_bytes, 1e-9 * bytes);
}

}  // namespace
}  // namespace twinstep
