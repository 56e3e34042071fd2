#include "exec/profile/collective_company.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "exec/profile/probe_graph.h"

namespace twinstep {
namespace {

// Rank 0 computes twice; it and rank 1 meet four times.
class CollectiveCompanyTest : public testing::Test {
 protected:
  CollectiveCompanyTest() {
    ProbeGraph probes(2);
    OpShape product{.op = OpCode::kGemmForward, .dtype = Dtype::kBf16};
    product.dims = {8, 8, 8};
    probes.AddOperator(product, std::array<std::int64_t, 2>{128, 128},
                       std::array<std::int64_t, 1>{128}, 2);
    OpShape sum{.op = OpCode::kReduceScatter, .dtype = Dtype::kBf16};
    sum.dims[0] = 128;
    probes.AddGroupOperation(sum, 4);
    graph_ = std::move(probes).Finish();
  }

  std::vector<CollectiveCompany::Company> Of(const std::vector<TaskTime>& times) const {
    const CollectiveCompany company(graph_, [&](TaskId id) { return times[id]; });
    std::vector<CollectiveCompany::Company> all;
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) all.push_back(company.Of(id));
    return all;
  }

  TaskGraph graph_;
};

TEST_F(CollectiveCompanyTest, OperatorsAndCollectivesByWhatRanMeanwhile) {
  ASSERT_EQ(graph_.rank_begin, (std::vector<std::uint32_t>{0, 6, 10}));
  constexpr auto kNone = CollectiveCompany::kNone, kPartly = CollectiveCompany::kPartly,
                 kAlways = CollectiveCompany::kAlways;
  // On rank 1 nothing computes: whom the others meet there does not wait for an operator.
  const std::vector<TaskTime> times = {
      {100, 200},   {200, 300},                              // Operators.
      {0, 100},     {100, 150},   {150, 250},   {290, 390},  // Rank 0's part.
      {1000, 1100}, {1100, 1150}, {1150, 1250}, {1290, 1390}};
  const auto company = Of(times);
  EXPECT_EQ(company[0], kAlways);
  EXPECT_EQ(company[1], kPartly);  // 60 of 100.
  EXPECT_EQ(company[2], kNone);
  EXPECT_EQ(company[3], kPartly);  // Beside an operator on one rank only.
  EXPECT_EQ(company[4], kPartly);
  EXPECT_EQ(company[5], kPartly);  // 10 of 100 on one rank.
  // Members of a rendezvous have one answer.
  for (TaskId id = 2; id < 6; ++id) EXPECT_EQ(company[id], company[id + 4]);
}

TEST_F(CollectiveCompanyTest, ALittleIsNone) {
  std::vector<TaskTime> times(graph_.TaskCount(), TaskTime{0, 0});
  times[0] = {0, 1000};
  times[2] = times[6] = {960, 1960};
  const auto company = Of(times);
  EXPECT_EQ(company[0], CollectiveCompany::kNone);
  EXPECT_EQ(company[2], CollectiveCompany::kNone);
}

// Both ranks compute: beside all of a collective of both.
TEST(CollectiveCompany, BesideOperatorsOfAllMembers) {
  ProbeGraph probes(2);
  OpShape sum{.op = OpCode::kReduceScatter, .dtype = Dtype::kBf16};
  sum.dims[0] = 128;
  probes.AddGroupOperation(sum, 1);
  const TaskGraph collective = std::move(probes).Finish();
  ProbeGraph of_one(1);
  OpShape product{.op = OpCode::kGemmForward, .dtype = Dtype::kBf16};
  product.dims = {8, 8, 8};
  of_one.AddOperator(product, std::array<std::int64_t, 2>{128, 128},
                     std::array<std::int64_t, 1>{128}, 1);
  const TaskGraph operation = std::move(of_one).Finish();
  ProbeGraph operators(2);
  for (const std::uint32_t rank : {0u, 1u}) operators.AddTask(operation, 0, {.rank = rank});
  const TaskGraph graph = Beside(collective, std::move(operators).Finish());
  ASSERT_EQ(graph.TaskCount(), 4u);
  const std::vector<TaskTime> times = {{10, 20}, {0, 50}, {110, 120}, {100, 150}};
  const CollectiveCompany company(graph, [&](TaskId id) { return times[id]; });
  EXPECT_EQ(company.Of(0), CollectiveCompany::kAlways);
  EXPECT_EQ(company.Of(2), CollectiveCompany::kAlways);
  EXPECT_EQ(company.Of(1), CollectiveCompany::kPartly);  // A fifth.
  EXPECT_EQ(company.Of(3), CollectiveCompany::kPartly);
}

}  // namespace
}  // namespace twinstep
