#include "exec/cuda/nccl_plan.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/runtime/program.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using cuda::NcclPlan;
using cuda::PlanNcclGroups;

class NcclPlanTest : public testing::Test {
 protected:
  void Lower(const Plan& plan) {
    const Model model = SmallModel("llama-gqa", BF16);  // Clips: an exact sum over all ranks.
    resolved_ = ResolveOrDie(model, plan);
    graph_ = LowerOrDie(model, resolved_);
    arena_ = PlanArena(graph_);
    Result<Program> program = MakeProgram(graph_, arena_, resolved_);
    ASSERT_TRUE(program.ok());
    program_ = std::move(program).value();
  }

  Result<std::vector<NcclPlan>> Groups(RankRange own, bool peer_memory = true,
                                       bool deterministic = false) const {
    std::vector<int> device_of_rank(graph_.ranks.size());
    for (std::size_t i = 0; i < device_of_rank.size(); ++i) {
      device_of_rank[i] = static_cast<int>(i % 2);
    }
    return PlanNcclGroups(program_, {.own = own,
                                     .device_of_rank = std::move(device_of_rank),
                                     .peer_memory = peer_memory,
                                     .deterministic = deterministic});
  }

  ResolvedPlan resolved_;
  TaskGraph graph_;
  ArenaPlan arena_;
  Program program_;
};

TEST_F(NcclPlanTest, AProcessWithAllRanksNeedsNone) {
  Lower(SmallPlan(2, 1, 1, 1));
  EXPECT_TRUE(Groups({0, 2}).value().empty());
}

TEST_F(NcclPlanTest, WithoutPeerMemoryEveryRendezvousIsInOnePlan) {
  Lower(SmallPlan(2, 1, 1, 1));
  std::set<RendezvousId> seen;
  const Result<std::vector<NcclPlan>> plans = Groups({0, 2}, /*peer_memory=*/false);
  for (const NcclPlan& plan : plans.value()) {
    EXPECT_EQ(plan.size, 2);
    EXPECT_FALSE(plan.has_messages);
    ASSERT_EQ(plan.own.size(), 2U);
    EXPECT_EQ(plan.own[1].index, 1);
    EXPECT_EQ(plan.own[1].device, 1);
    for (const RendezvousId id : plan.rendezvous) EXPECT_TRUE(seen.insert(id).second);
  }
  EXPECT_EQ(seen.size(), graph_.rendezvous.size());
}

// What is NCCL's, and in which order, must not depend on the process.
TEST_F(NcclPlanTest, ProcessesPlanTheSameGroups) {
  for (const Plan& plan : {SmallPlan(2, 1, 1, 2), SmallPlan(1, 2, 2, 1), SmallPlan(1, 1, 2, 2),
                           SmallPlan(2, 2, 1, 1)}) {
    Lower(plan);
    const std::vector<NcclPlan> first = Groups({0, 2}).value(), second = Groups({2, 4}).value();
    ASSERT_FALSE(first.empty());
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].rendezvous, second[i].rendezvous);
      EXPECT_EQ(first[i].has_messages, second[i].has_messages);
      EXPECT_EQ(first[i].size, second[i].size);
      EXPECT_EQ(static_cast<std::size_t>(first[i].size),
                first[i].own.size() + second[i].own.size());
    }
  }
}

TEST_F(NcclPlanTest, StagesExchangeMessages) {
  Lower(SmallPlan(1, 1, 2, 1));
  bool has_messages = false;
  const Result<std::vector<NcclPlan>> plans = Groups({0, 1});
  for (const NcclPlan& plan : plans.value()) {
    has_messages = has_messages || plan.has_messages;
  }
  EXPECT_TRUE(has_messages);
}

TEST_F(NcclPlanTest, SumsOfNcclAreNotDeterministic) {
  Lower(SmallPlan(2, 1, 1, 1));
  const Result<std::vector<NcclPlan>> plans = Groups({0, 1}, true, /*deterministic=*/true);
  ASSERT_FALSE(plans.ok());
  EXPECT_EQ(plans.error().rule, "deterministic");
  // Stages only pass on, and the gradient's norm is an exact sum.
  Lower(SmallPlan(1, 1, 2, 1));
  EXPECT_TRUE(Groups({0, 1}, true, /*deterministic=*/true).ok());
}

TEST_F(NcclPlanTest, MembersThatShareAGpuAreNamed) {
  Lower(SmallPlan(1, 1, 1, 4));
  const Result<std::vector<NcclPlan>> plans = Groups({0, 4}, /*peer_memory=*/false);
  ASSERT_FALSE(plans.ok());
  EXPECT_EQ(plans.error().rule, "cuda-devices");
  EXPECT_EQ(plans.error().rank, 2U);
  EXPECT_NE(plans.error().message.find("rank 2 shares GPU 0"), std::string::npos);
}

}  // namespace
}  // namespace twinstep
