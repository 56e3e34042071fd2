#include "exec/cuda/fused_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using cuda::FusedPairs;
using cuda::Fusion;

class FusedPairsTest : public testing::Test {
 protected:
  void Find(const std::string& model, const Plan& plan) {
    resolved_ = ResolveOrDie(SmallModel(model, BF16), plan);
    graph_ = LowerOrDie(SmallModel(model, BF16), resolved_);
    arena_ = PlanArena(graph_);
    Result<Program> program = MakeProgram(graph_, arena_, resolved_);
    ASSERT_TRUE(program.ok());
    program_ = std::move(program).value();
    pairs_ = cuda::FindFusedPairs(program_);
  }

  std::int64_t Count(Fusion fusion) const {
    return std::count(pairs_.fusion.begin(), pairs_.fusion.end(), fusion);
  }
  std::int64_t CountOps(OpCode op) const {
    return std::count_if(graph_.tasks.begin(), graph_.tasks.end(),
                         [&](const Task& task) { return graph_.shapes[task.shape].op == op; });
  }

  ResolvedPlan resolved_;
  TaskGraph graph_;
  ArenaPlan arena_;
  Program program_;
  FusedPairs pairs_;
};

TEST_F(FusedPairsTest, EveryGatedMlpIsFused) {
  Find("llama", SmallPlan(1, 1, 1, 1));
  EXPECT_GT(CountOps(OpCode::kSiluForward), 0);
  EXPECT_EQ(Count(Fusion::kSwiGlu), CountOps(OpCode::kSiluForward));
  EXPECT_EQ(Count(Fusion::kSwiGluBackward), CountOps(OpCode::kSiluBackward));
  EXPECT_EQ(Count(Fusion::kSwiGluWithSilu), 0);
  EXPECT_EQ(Count(Fusion::kWithNext),
            CountOps(OpCode::kSiluForward) + CountOps(OpCode::kSiluBackward));
}

TEST_F(FusedPairsTest, OutputsThatAreOffloadedAreWritten) {
  Plan plan = SmallPlan(1, 1, 4, 1);
  plan.set_offload_ratio(1);
  Find("llama", plan);
  // Whoever fuses must leave what a copy reads: no pair with a reader on another lane drops it.
  for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
    if (pairs_.fusion[id] != Fusion::kSwiGlu) continue;
    const BufferId silu = graph_.Writes(pairs_.first[id])[0].buffer;
    for (TaskId reader = 0; reader < graph_.TaskCount(); ++reader) {
      for (const Operand& x : graph_.Reads(reader)) {
        if (x.buffer != silu) continue;
        EXPECT_NE(pairs_.fusion[reader], Fusion::kNone) << graph_.TaskName(reader);
      }
    }
  }
}

TEST_F(FusedPairsTest, OtherActivationsAreNot) {
  Find("gpt", SmallPlan(1, 1, 1, 1));
  EXPECT_EQ(Count(Fusion::kNone), static_cast<std::int64_t>(graph_.tasks.size()));
}

TEST_F(FusedPairsTest, PairsAreNeighboursOfOneLane) {
  Find("llama-gqa", SmallPlan(2, 1, 2, 1));
  for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
    const TaskId first = pairs_.first[id];
    if (first == kNone) continue;
    EXPECT_EQ(graph_.tasks[first].rank, graph_.tasks[id].rank);
    EXPECT_EQ(graph_.tasks[first].lane, graph_.tasks[id].lane);
    EXPECT_EQ(program_.event[first], kNone);
    for (TaskId between = first + 1; between < id; ++between) {
      EXPECT_NE(graph_.tasks[between].lane, graph_.tasks[id].lane);
    }
  }
}

}  // namespace
}  // namespace twinstep
