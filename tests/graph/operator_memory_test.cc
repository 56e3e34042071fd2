#include "sim/graph/operator_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/graph/graph_builder.h"
#include "tests/graph/tiny_model.h"

namespace twinstep {
namespace {

OpShape ShapeOf(OpCode op) { return {.op = op}; }

// A linear layer whose input is stored, a function in between, a second linear layer, and the
// backward of the first.
TEST(OperatorMemoryTest, OfASmallGraph) {
  GraphBuilder builder(1);
  const BufferId weights =
      builder.AddBuffer(0, 1000, {.role = Role::kParameter, .persistent = true});
  const BufferId gradient = builder.AddBuffer(0, 1000, {.role = Role::kGradient});
  const BufferId x = builder.AddBuffer(0, 100, {.role = Role::kActivation});
  const BufferId y = builder.AddBuffer(0, 30);
  const BufferId z = builder.AddBuffer(0, 40);
  const BufferId out = builder.AddBuffer(0, 5);
  const auto add = [&](OpCode op, Phase phase, std::vector<Operand> reads,
                       std::vector<Operand> writes) {
    return builder.Add({.shape = ShapeOf(op),
                        .reads = std::move(reads),
                        .writes = std::move(writes),
                        .phase = phase});
  };
  const auto embed = add(OpCode::kEmbeddingForward, Phase::kForward, {{weights}}, {{x}});
  const auto first = add(OpCode::kGemmForward, Phase::kForward, {{x}, {weights}}, {{y}});
  add(OpCode::kAdd, Phase::kForward, {{y}}, {{z}});
  const auto second = add(OpCode::kGemmForward, Phase::kForward, {{z}, {weights}}, {{out}});
  const auto backward = add(OpCode::kGemmWgrad, Phase::kBackward, {{x}, {out}}, {{gradient}});
  add(OpCode::kAdam, Phase::kOptimizer, {{gradient}}, {{weights}});
  const TaskGraph graph = builder.Build();
  const TaskId scratch_task = builder.Id(second);
  const std::vector<OperatorMemoryUse> uses =
      MeasureOperatorMemory(graph, 0, [&](TaskId id) { return id == scratch_task ? 64 : 0; });
  ASSERT_EQ(uses.size(), 4u);
  EXPECT_EQ(uses[0].task, builder.Id(embed));
  EXPECT_EQ(uses[0].intra_current_bytes, 100);
  EXPECT_EQ(uses[1].task, builder.Id(first));
  EXPECT_EQ(uses[1].intra_current_bytes, 30);
  EXPECT_EQ(uses[1].intra_peak_bytes, 30);
  EXPECT_EQ(uses[1].inter_peak_bytes, 0);
  // The sum made z, then freed y.
  EXPECT_EQ(uses[2].inter_peak_bytes, 40);
  EXPECT_EQ(uses[2].inter_current_bytes, 40 - 30);
  EXPECT_EQ(uses[2].workspace_bytes, 64);
  EXPECT_EQ(uses[2].intra_peak_bytes, 5 + 64);
  EXPECT_EQ(uses[2].intra_current_bytes, 5 - 40);
  EXPECT_EQ(uses[2].released_bytes, 0);
  // The gradient is a model state; x goes, and was stored by a forward.
  EXPECT_EQ(uses[3].task, builder.Id(backward));
  EXPECT_EQ(uses[3].intra_peak_bytes, 0);
  EXPECT_EQ(uses[3].intra_current_bytes, -100 - 5);
  EXPECT_EQ(uses[3].released_bytes, 100);
}

// Added up, the deltas are what is allocated; the highest of the peaks is the highest of all.
TEST(OperatorMemoryTest, DeltasAddUp) {
  for (const TinyPlan& plan : {TinyPlan{}, TinyPlan{.t = 2, .m = 3, .sequence_parallel = true},
                               TinyPlan{.c = 2, .d = 2, .m = 2, .clip = true}}) {
    const TaskGraph graph = MakeTinyModel(plan);
    const std::vector<OperatorMemoryUse> uses = MeasureOperatorMemory(graph, 0);
    ASSERT_FALSE(uses.empty());
    // Independently: bytes alive during each task.
    const auto alive_during = [&](TaskId id) {
      std::set<BufferId> before, after;
      const auto collect = [&](TaskId begin, TaskId end, std::set<BufferId>* buffers) {
        for (TaskId t = begin; t < end; ++t) {
          for (const Operand& x : graph.Reads(t)) buffers->insert(x.buffer);
          for (const Operand& x : graph.Writes(t)) buffers->insert(x.buffer);
        }
      };
      collect(graph.rank_begin[0], id + 1, &before);
      collect(id, graph.rank_begin[1], &after);
      std::int64_t bytes = 0;
      for (const BufferId buffer : before) {
        const Buffer& x = graph.buffers[buffer];
        const bool state = x.role == Role::kParameter || x.role == Role::kGradient ||
                           x.role == Role::kOptimizerState || x.role == Role::kInput;
        if (after.contains(buffer) && x.pool == Pool::kGpu && !x.persistent && !state) {
          bytes += x.bytes;
        }
      }
      return bytes;
    };
    std::int64_t expected = 0;
    for (TaskId id = graph.rank_begin[0]; id <= uses.back().task; ++id) {
      expected = std::max(expected, alive_during(id));
    }
    std::int64_t current = 0, peak = 0;
    for (const OperatorMemoryUse& use : uses) {
      peak = std::max(peak, current + use.inter_peak_bytes);
      current += use.inter_current_bytes;
      peak = std::max(peak, current + use.intra_peak_bytes);
      EXPECT_EQ(current + use.intra_peak_bytes, alive_during(use.task));
      current += use.intra_current_bytes;
      EXPECT_GE(current, 0);
    }
    EXPECT_EQ(peak, expected);
  }
}

}  // namespace
}  // namespace twinstep
