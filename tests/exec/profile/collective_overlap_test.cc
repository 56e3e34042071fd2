#include "exec/profile/collective_overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "exec/profile/merge_graphs.h"
#include "exec/profile/probe_graph.h"

namespace twinstep {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

// Two ranks compute one thing `operators` times and meet `meetings` times to sum; times are handed
// in, in microseconds.
class CollectiveOverlapTest : public testing::Test {
 protected:
  void Make(int operators, int meetings) {
    OpShape product{.op = OpCode::kGemmForward, .dtype = Dtype::kBf16};
    product.dims = {8, 8, 8};
    ProbeGraph of_one;
    of_one.AddOperator(product, std::array<std::int64_t, 2>{128, 128},
                       std::array<std::int64_t, 1>{128}, 1);
    const TaskGraph one = std::move(of_one).Finish();
    ProbeGraph layers(2);
    for (const std::uint32_t rank : {0u, 1u}) {
      layers.AddTask(one, 0, {.rank = rank, .times = operators});
    }
    OpShape sum{.op = OpCode::kReduceScatter, .dtype = Dtype::kBf16};
    sum.dims[0] = 128;
    ProbeGraph probes(2);
    probes.AddGroupOperation(sum, meetings);
    graph_ = Beside(std::move(probes).Finish(), std::move(layers).Finish());
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      primitives_.push_back(*PrimitiveOf(graph_, id));
    }
    sum_ = primitives_.front();
    product_ = primitives_.back();
  }

  struct Span {
    double start_us = 0, end_us = 0;
  };
  // Four iterations of two ranks, each a collective and three operators. The collective begins
  // while operators run until 100 and, on rank 1, until `until`; it takes 40 from `early` before
  // both have ended, while the operators that come next stand still.
  static std::vector<std::vector<Span>> Waiting(double early) {
    const auto iteration = [early](double begin, double until) {
      const double from = std::max(100.0, until), end = from + 40 - early;
      return std::vector<Span>{{begin, end},
                               {0, 100},
                               {100, end + 100 - (from - 100)},
                               {300, 400},
                               {begin, end},
                               {until - 100, until},
                               {until, end + 100 - (from - until)},
                               {300, 400}};
    };
    return {iteration(10, 100), iteration(50, 100), iteration(90, 100), iteration(20, 120)};
  }

  // Of each rank the meetings, then the operators.
  CollectiveOverlap::Times Of(const std::vector<std::vector<Span>>& iterations,
                              const std::map<Primitive, double>& alone_s = {}) const {
    CollectiveOverlap overlap(graph_, [this](TaskId id) { return &primitives_[id]; });
    for (const std::vector<Span>& times : iterations) {
      EXPECT_EQ(times.size(), graph_.TaskCount());
      overlap.AddIteration([&times](TaskId id) {
        return TaskTime{static_cast<std::int64_t>(times[id].start_us * 1e3),
                        static_cast<std::int64_t>(times[id].end_us * 1e3)};
      });
    }
    return overlap.Finish(alone_s);
  }

  static auto Us(double us) { return DoubleNear(us * 1e-6, 1e-12); }

  TaskGraph graph_;
  std::vector<Primitive> primitives_;
  Primitive sum_, product_;
};

TEST_F(CollectiveOverlapTest, AloneAreThoseThatLapOverLittle) {
  Make(/*operators=*/1, /*meetings=*/2);
  const CollectiveOverlap::Times times = Of({{{0, 100},
                                              {197, 300},
                                              {100, 200},  //
                                              {0, 100},
                                              {197, 300},
                                              {100, 200}}});
  EXPECT_THAT(times.alone.at(sum_), ElementsAre(Us(101.5)));
  EXPECT_THAT(times.alone.at(product_), ElementsAre(Us(100)));
  EXPECT_THAT(times.beside, IsEmpty());
  EXPECT_THAT(times.slowdowns, IsEmpty());
}

TEST_F(CollectiveOverlapTest, WhatWaitsForOperatorsIsCountedFromTheirEnd) {
  Make(/*operators=*/3, /*meetings=*/1);
  const CollectiveOverlap::Times times = Of(Waiting(/*early=*/0));
  ASSERT_TRUE(times.company.contains(sum_));
  EXPECT_TRUE(times.company.at(sum_).waits);
  EXPECT_NEAR(times.company.at(sum_).takes, 1, 1e-9);
  EXPECT_THAT(times.beside.at(sum_), ElementsAre(Us(40), Us(40), Us(40), Us(40)));
  // Nothing is slowed by what still waits; and by what makes operators stand still they are not
  // slowed, but wait.
  EXPECT_THAT(times.alone.at(product_), testing::Each(Us(100)));
  EXPECT_THAT(times.slowdowns, IsEmpty());
}

// It begins before the operators have ended, in what their last blocks leave.
TEST_F(CollectiveOverlapTest, OperatorsLetInBeforeTheyEnd) {
  Make(/*operators=*/3, /*meetings=*/1);
  const auto lets_in_s = [this](double early, const std::map<Primitive, double>& alone_s) {
    return Of(Waiting(early), alone_s).lets_in_s;
  };
  EXPECT_THAT(lets_in_s(15, {{sum_, 40e-6}}).at(product_), Us(85));
  EXPECT_THAT(lets_in_s(0, {{sum_, 40e-6}}).at(product_), Us(100));
  EXPECT_THAT(lets_in_s(15, {}), IsEmpty());  // What it takes alone is not known.
}

// Copy engines do it, whatever runs: it takes 50 all the time, and slows operators by a quarter.
TEST_F(CollectiveOverlapTest, WhatDoesNotWaitIsCountedFromItsBegin) {
  Make(/*operators=*/3, /*meetings=*/1);
  const auto iteration = [](double begin) {
    std::vector<Span> rank = {{begin, begin + 50}, {0, 110}, {110, 210}, {210, 310}};
    std::vector<Span> both = rank;
    both.insert(both.end(), rank.begin(), rank.end());
    return both;
  };
  const CollectiveOverlap::Times times = Of({iteration(5), iteration(20), iteration(40)});
  ASSERT_TRUE(times.company.contains(sum_));
  EXPECT_FALSE(times.company.at(sum_).waits);
  EXPECT_NEAR(times.company.at(sum_).takes, 0.2, 1e-9);
  EXPECT_THAT(times.beside.at(sum_), ElementsAre(Us(50), Us(50), Us(50)));
  // In 50 beside it an operator does what takes 40 alone.
  EXPECT_NEAR(times.slowdowns.at(product_), 1.25, 1e-9);
}

// As above, but one operator has stood still meanwhile, which no copy makes it do.
TEST_F(CollectiveOverlapTest, WhoStoodStillWasNotSlowed) {
  Make(/*operators=*/3, /*meetings=*/1);
  const auto iteration = [](double begin, double lost) {
    std::vector<Span> rank = {
        {begin, begin + 50}, {0, 100 + lost}, {100 + lost, 200 + lost}, {200 + lost, 300 + lost}};
    std::vector<Span> both = rank;
    both.insert(both.end(), rank.begin(), rank.end());
    return both;
  };
  const CollectiveOverlap::Times times =
      Of({iteration(5, 10), iteration(20, 10), iteration(30, 10), iteration(40, 45)});
  EXPECT_NEAR(times.slowdowns.at(product_), 1.25, 1e-9);
}

// Where operators always run for as long, times alone tell: 100 of waiting and 40, or 140.
TEST_F(CollectiveOverlapTest, TimesAloneTellWhereItAlwaysBeginsAtOnePlace) {
  Make(/*operators=*/2, /*meetings=*/1);
  std::vector<std::vector<Span>> iterations;
  for (const double more : {0.0, 1.0, 2.0}) {
    const std::vector<Span> rank = {{0, 140}, {0, 100 - more}, {100 - more, 240}};
    iterations.push_back(rank);
    iterations.back().insert(iterations.back().end(), rank.begin(), rank.end());
  }
  EXPECT_FALSE(Of(iterations).company.at(sum_).waits);
  EXPECT_TRUE(Of(iterations, {{sum_, 40e-6}}).company.at(sum_).waits);
  EXPECT_FALSE(Of(iterations, {{sum_, 140e-6}}).company.at(sum_).waits);
}

// As above, but each takes 140 in all, and the operators' ends vary: that is no sign of not
// waiting.
TEST_F(CollectiveOverlapTest, WhatOperatorsVaryByIsNoSign) {
  Make(/*operators=*/2, /*meetings=*/1);
  std::vector<std::vector<Span>> iterations;
  for (const double more : {-3.0, 0.0, 3.0}) {
    const std::vector<Span> rank = {{0, 140}, {0, 100 + more}, {100 + more, 240}};
    iterations.push_back(rank);
    iterations.back().insert(iterations.back().end(), rank.begin(), rank.end());
  }
  const CollectiveOverlap::Times times = Of(iterations, {{sum_, 80e-6}});
  EXPECT_TRUE(times.company.at(sum_).waits);
  EXPECT_THAT(times.beside.at(sum_), ElementsAre(Us(43), Us(40), Us(37)));
  EXPECT_FALSE(Of(iterations, {{sum_, 100e-6}}).company.at(sum_).waits);
}

// Two wait for operators from several places; the third always begins with one, and its time alone
// would say that it does not: 140, or 100 of waiting and 40.
TEST(CollectiveOverlap, SumsOfAllSizesDoAsMostOfThem) {
  const auto overlap_of = [](OpCode op_of_third) {
    OpShape product{.op = OpCode::kGemmForward, .dtype = Dtype::kBf16};
    product.dims = {8, 8, 8};
    ProbeGraph of_one;
    of_one.AddOperator(product, std::array<std::int64_t, 2>{128, 128},
                       std::array<std::int64_t, 1>{128}, 1);
    const TaskGraph one = std::move(of_one).Finish();
    ProbeGraph layers(2);
    for (const std::uint32_t rank : {0u, 1u}) layers.AddTask(one, 0, {.rank = rank, .times = 3});
    TaskGraph graph = std::move(layers).Finish();
    // From the last on, so that they are in order.
    for (const std::int64_t bytes : {512, 256, 128}) {
      OpShape shape{.op = bytes == 512 ? op_of_third : OpCode::kReduceScatter,
                    .dtype = Dtype::kBf16};
      shape.dims[0] = bytes;
      ProbeGraph probe(2);
      probe.AddGroupOperation(shape, 1);
      graph = Beside(std::move(probe).Finish(), std::move(graph));
    }
    std::vector<Primitive> primitives;
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      primitives.push_back(*PrimitiveOf(graph, id));
    }
    CollectiveOverlap overlap(graph, [&primitives](TaskId id) { return &primitives[id]; });
    for (const double more : {0.0, 10.0, 25.0, 40.0}) {
      const std::vector<std::pair<double, double>> of_rank = {
          {10 + more, 140}, {1010 + 2 * more, 1140}, {2000, 2140}, {0, 100}, {1000, 1100},
          {2000, 2100}};
      overlap.AddIteration([&of_rank](TaskId id) {
        const auto& [start_us, end_us] = of_rank[id % of_rank.size()];
        return TaskTime{static_cast<std::int64_t>(start_us * 1e3),
                        static_cast<std::int64_t>(end_us * 1e3)};
      });
    }
    const Primitive third = primitives[2];
    return std::pair(third, overlap.Finish({{third, 130e-6}}));
  };
  const auto& [sum, of_sums] = overlap_of(OpCode::kReduceScatter);
  EXPECT_TRUE(of_sums.company.at(sum).waits);
  EXPECT_THAT(of_sums.beside.at(sum), testing::Each(DoubleNear(40e-6, 1e-12)));
  // What may not wait is asked for itself.
  const auto& [message, of_messages] = overlap_of(OpCode::kSend);
  EXPECT_THAT(of_messages.beside, testing::Not(testing::Contains(testing::Key(message))));
}

// Too few times of such as may have waited are nobody's.
TEST_F(CollectiveOverlapTest, FewTimesSayNothing) {
  Make(/*operators=*/1, /*meetings=*/1);
  const std::vector<Span> both = {{10, 60}, {0, 100}, {10, 60}, {0, 100}};
  EXPECT_THAT(Of({both, both}).beside, IsEmpty());
  EXPECT_THAT(Of({both, both, both}).beside.at(sum_), ElementsAre(Us(50), Us(50), Us(50)));
}

TEST_F(CollectiveOverlapTest, TooShortACompanySaysNothingOfAnOperator) {
  Make(/*operators=*/3, /*meetings=*/1);
  const std::vector<Span> rank = {{20, 30}, {0, 102}, {102, 202}, {202, 302}};
  std::vector<Span> both = rank;
  both.insert(both.end(), rank.begin(), rank.end());
  const CollectiveOverlap::Times times = Of({both, both, both});
  EXPECT_THAT(times.slowdowns, IsEmpty());
}

// On one rank nothing computes: it is neither alone nor beside operators of all members.
TEST_F(CollectiveOverlapTest, BesideOperatorsOfAllMembers) {
  Make(/*operators=*/1, /*meetings=*/1);
  const CollectiveOverlap::Times times = Of({{{10, 60}, {0, 100}, {10, 60}, {200, 300}}});
  EXPECT_THAT(times.beside, IsEmpty());
  EXPECT_FALSE(times.alone.contains(sum_));
}

TEST(TurnVotes, SumsSayMore) {
  const Primitive sum{.shape = {.op = OpCode::kReduceScatter}, .group_size = 2};
  const Primitive gather{.shape = {.op = OpCode::kAllGather}, .group_size = 2};
  TurnVotes votes;
  EXPECT_FALSE(votes.TakeTurns());
  votes.Add(gather, /*waits=*/true);
  EXPECT_TRUE(votes.TakeTurns());
  votes.Add(sum, /*waits=*/false);
  EXPECT_FALSE(votes.TakeTurns());
  votes.Add(sum, /*waits=*/true);
  votes.Add(sum, /*waits=*/true);
  for (int i = 0; i < 5; ++i) votes.Add(gather, /*waits=*/false);
  EXPECT_TRUE(votes.TakeTurns());
}

}  // namespace
}  // namespace twinstep
