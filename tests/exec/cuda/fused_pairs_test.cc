// The rule of sim/graph/fused_pairs.h on graphs as the CUDA backend gets them, with their arenas.
#include "sim/graph/fused_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "exec/profile/repeat_layers.h"
#include "exec/runtime/program.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

class FusedPairsTest : public testing::Test {
 protected:
  void Find(const std::string& model, const Plan& plan, bool same_bits = false) {
    resolved_ = ResolveOrDie(SmallModel(model, BF16), plan);
    FindIn(LowerOrDie(SmallModel(model, BF16), resolved_), same_bits);
  }

  void FindIn(TaskGraph graph, bool same_bits = false) {
    graph_ = std::move(graph);
    arena_ = PlanArena(graph_);
    Result<Program> program = MakeProgram(graph_, arena_, resolved_);
    ASSERT_TRUE(program.ok());
    program_ = std::move(program).value();
    pairs_ = FindFusedPairs(graph_, same_bits ? PairRule::kSameBits : PairRule::kAll, &arena_);
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

TEST_F(FusedPairsTest, ProductsAddTheResidual) {
  Find("llama", SmallPlan(1, 1, 1, 1));
  EXPECT_GT(CountOps(OpCode::kAdd), 0);
  EXPECT_EQ(Count(Fusion::kGemmAdd), CountOps(OpCode::kAdd));
  EXPECT_EQ(Count(Fusion::kWithPrevious), CountOps(OpCode::kAdd));
  Find("llama", SmallPlan(1, 1, 1, 1), /*same_bits=*/true);
  EXPECT_EQ(Count(Fusion::kGemmAdd), 0);
  EXPECT_GT(Count(Fusion::kSwiGlu), 0);
  // Several ranks sum their products before the residual.
  Find("llama", SmallPlan(2, 1, 1, 1));
  EXPECT_EQ(Count(Fusion::kGemmAdd), 0);
}

// What profile measures: the layers run several times on the same buffers.
TEST_F(FusedPairsTest, RepeatedLayersAreFusedAsOnce) {
  Plan recomputed = SmallPlan(1, 1, 1, 1);
  recomputed.set_recompute(RECOMPUTE_FULL);
  for (const Plan& plan : {SmallPlan(1, 1, 1, 1), recomputed}) {
    Find("llama", plan);
    for (const Fusion fusion : {Fusion::kSwiGlu, Fusion::kSwiGluBackward, Fusion::kGemmAdd}) {
      EXPECT_GT(Count(fusion), 0);
    }
    FindIn(RepeatLayers(graph_, resolved_.l, {.layers = 3}));
    EXPECT_EQ(Count(Fusion::kSwiGlu), CountOps(OpCode::kSiluForward));
    EXPECT_EQ(Count(Fusion::kSwiGluBackward), CountOps(OpCode::kSiluBackward));
    EXPECT_EQ(Count(Fusion::kSwiGluWithSilu), 0);
    EXPECT_EQ(Count(Fusion::kGemmAdd), CountOps(OpCode::kAdd));
  }
}

// Whatever a plan drops early, a sum is not written over what its product still reads.
TEST_F(FusedPairsTest, SumsOverwriteNoFactor) {
  Plan checkpointed = SmallPlan(1, 1, 1, 1);
  checkpointed.set_recompute(RECOMPUTE_FULL);
  Plan chunked = SmallPlan(1, 1, 1, 1);
  chunked.set_persistent_chunks(1);
  chunked.set_checkpointed_blocks(2);
  for (const Plan& plan : {SmallPlan(1, 1, 1, 1), SmallPlan(1, 1, 4, 1), checkpointed, chunked}) {
    Find("llama", plan);
    const auto range = [&](const Operand& x) {
      const std::int64_t begin = arena_.offset[x.buffer] + graph_.slices[x.slice].offset;
      return std::pair(begin, begin + graph_.OperandBytes(x));
    };
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      if (pairs_.fusion[id] != Fusion::kGemmAdd) continue;
      const Operand& sum = graph_.Writes(pairs_.partner[id])[0];
      for (const Operand& x : graph_.Reads(id)) {
        if (graph_.buffers[x.buffer].pool != graph_.buffers[sum.buffer].pool) continue;
        EXPECT_TRUE(range(x).second <= range(sum).first || range(sum).second <= range(x).first)
            << graph_.TaskName(id);
      }
    }
  }
}

TEST_F(FusedPairsTest, OutputsThatAreOffloadedAreWritten) {
  Plan plan = SmallPlan(1, 1, 4, 1);
  plan.set_offload_ratio(1);
  Find("llama", plan);
  // Whoever fuses must leave what a copy reads: no pair with a reader on another lane drops it.
  for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
    if (pairs_.fusion[id] != Fusion::kSwiGlu) continue;
    const BufferId silu = graph_.Writes(pairs_.partner[id])[0].buffer;
    for (TaskId reader = 0; reader < graph_.TaskCount(); ++reader) {
      for (const Operand& x : graph_.Reads(reader)) {
        if (x.buffer != silu) continue;
        EXPECT_NE(pairs_.fusion[reader], Fusion::kAlone) << graph_.TaskName(reader);
      }
    }
  }
}

TEST_F(FusedPairsTest, OtherActivationsAreNot) {
  Find("gpt", SmallPlan(1, 1, 1, 1));
  EXPECT_EQ(Count(Fusion::kAlone), static_cast<std::int64_t>(graph_.tasks.size()));
}

TEST_F(FusedPairsTest, PairsAreNeighboursOfOneLane) {
  Find("llama-gqa", SmallPlan(2, 1, 2, 1));
  for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
    const TaskId first = pairs_.partner[id];
    if (first == kNone || first > id) continue;
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
