#include "tests/graph/mutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/graph/closure_oracle.h"
#include "tests/graph/graph_builder.h"
#include "tests/graph/random_graph.h"

namespace twinstep {
namespace {

// make -> copy -> overwrite, with the edge make -> overwrite: by transitivity not needed.
TEST(ClosureOracle, TellsNeededEdgesFromOthers) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 64);
  const BufferId host = builder.AddBuffer(0, 64, {.pool = Pool::kPinnedHost});
  const auto make = builder.Compute(0, {}, {x});
  const auto copy = builder.CopyD2H(x, host);
  const auto overwrite = builder.Compute(0, {}, {x}, Lane::kTp);
  const auto other = builder.Compute(0, {}, {}, Lane::kCp);
  const auto next = builder.Compute(0, {}, {}, Lane::kTp);
  builder.Order(make, other);
  const TaskGraph graph = builder.Build();
  const ClosureOracle oracle(graph);
  EXPECT_TRUE(oracle.IsNeeded(make, copy));
  EXPECT_TRUE(oracle.IsNeeded(copy, overwrite));
  EXPECT_FALSE(oracle.IsNeeded(make, overwrite));
  EXPECT_FALSE(oracle.IsNeeded(make, other));     // Explicit, and no hazard asks for it.
  EXPECT_TRUE(oracle.IsNeeded(overwrite, next));  // Lane order.
  EXPECT_TRUE(oracle.Precedes(make, next));
  EXPECT_FALSE(oracle.Precedes(other, next));
}

// An edge that joins no pair of its own, but carries the path of another one.
TEST(ClosureOracle, SeesPairsFurtherApart) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 64);
  const auto make = builder.Compute(0, {}, {x}, Lane::kCompute);
  const auto event = builder.Compute(0, {}, {}, Lane::kTp);
  const auto wait = builder.Compute(0, {}, {}, Lane::kCp);
  const auto use = builder.Compute(0, {x}, {}, Lane::kDp);
  builder.Order(make, event);
  builder.Order(event, wait);
  builder.Order(wait, use);
  const TaskGraph graph = builder.Build({.hazards = false});
  EXPECT_TRUE(ClosureOracle(graph).IsNeeded(event, wait));
  EXPECT_THAT(TestMutations(graph).failures, testing::IsEmpty());
}

TEST(Mutation, EveryKindIsFoundInARandomGraph) {
  const MutationReport report = TestMutations(RandomGraph({.seed = 11, .ranks = 4, .tasks = 300}),
                                              {.edges = 100000, .mutants = 20});
  EXPECT_THAT(report.failures, testing::IsEmpty());
  EXPECT_THAT(report.mutants, testing::Each(testing::Gt(0u)));
  // Both answers occur often.
  EXPECT_GT(report.edges_needed, 100u);
  EXPECT_GT(report.edges_tried, report.edges_needed + 100u);
}

TEST(Mutation, VerifierAgreesWithTheOracleOnRandomGraphs) {
  EXPECT_TRUE(rc::check([] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 6);
    const auto tasks = *rc::gen::inRange<std::uint32_t>(1, 200);
    const auto working_set = *rc::gen::inRange<std::uint32_t>(1, 8);
    const MutationReport report = TestMutations(
        RandomGraph({.seed = seed, .ranks = ranks, .tasks = tasks, .working_set = working_set}),
        {.seed = seed, .edges = 300, .mutants = 3});
    if (!report.failures.empty()) RC_FAIL(report.failures.front());
  }));
}

TEST(Mutation, ReportsAGraphThatWasWrongBefore) {
  GraphBuilder builder(1);
  builder.Compute(0, {builder.AddBuffer(0, 8)}, {});
  const MutationReport report = TestMutations(builder.Build());
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_THAT(report.failures[0], testing::HasSubstr("read-before-write"));
}

}  // namespace
}  // namespace twinstep
