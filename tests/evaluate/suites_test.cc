// The record of how near predictions come: a suite that gets worse than its file says fails here.
// Where a change makes one better, tighten what the file records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "sim/evaluate/evaluation.h"
#include "sim/evaluate/suites/find_suite.h"

namespace twinstep {
namespace {

using ::testing::IsEmpty;

// Recorded figures may lag behind by this much before they must be tightened.
constexpr double kSlack = 0.015;

class SuitesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SuitesTest, IsAsGoodAsRecorded) {
  const Result<Suite> suite = FindSuite(GetParam());
  ASSERT_TRUE(suite.ok()) << suite.error().message;
  const std::vector<Suite> suites = {suite.value()};
  const Result<std::vector<Evaluation>> done = Evaluate(suites, {.jobs = 2, .sets = {}});
  ASSERT_TRUE(done.ok()) << done.error().message;
  const Evaluation& evaluation = done.value().front();
  EXPECT_THAT(Violations(evaluation, suites.front().recorded(), kRecordedPrecision), IsEmpty());
  for (const QuantitySummary& summary : evaluation.summaries) {
    bool recorded = false;
    for (const Limit& limit : suites.front().recorded()) {
      if (limit.quantity() != summary.quantity) continue;
      recorded = true;
      EXPECT_GT(summary.model.mean, limit.mean() - kSlack)
          << Label(limit.quantity()) << " is better than recorded: tighten the suite's file";
    }
    EXPECT_TRUE(recorded) << "the suite does not record its " << Label(summary.quantity);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SuitesTest, ::testing::ValuesIn(ListSuites()),
                         [](const ::testing::TestParamInfo<std::string>& suite) {
                           std::string name;
                           for (const char c : suite.param) name += c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace twinstep
