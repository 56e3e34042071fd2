// Activation offload as lowered: copies, buffers and slots (Yuan et al., ATC 2024).

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/graph/arena.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

// Any model with L = p v l layers of a Llama shape.
MatrixCase OffloadCase(std::int64_t p, std::int64_t v, std::int64_t m, double ratio) {
  MatrixCase result;
  Model& model = result.model;
  model.set_family(LLAMA);
  model.set_layers(p * v);
  model.set_hidden_size(256);
  model.set_ffn_hidden_size(704);
  model.set_attention_heads(4);
  model.set_kv_heads(4);
  model.set_vocab_size(256);
  model.set_max_sequence_length(64);
  Plan plan;
  plan.set_pipeline_parallel(p);
  plan.set_virtual_stages(v);
  plan.set_global_batch(m);
  plan.set_sequence_length(64);
  plan.set_offload_ratio(ratio);
  Cluster cluster = MatrixCluster();
  result.plan = ResolvePlan(model, cluster, plan, p).value();
  return result;
}

std::int64_t Count(const TaskGraph& graph, RankId rank, OpCode op) {
  std::int64_t count = 0;
  for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
    count += graph.shapes[graph.tasks[id].shape].op == op ? 1 : 0;
  }
  return count;
}

TEST(Offload, EveryBlockButTheLastStagesGoesOutAndBack) {
  for (const double ratio : {0.2, 0.7, 1.0}) {
    const std::int64_t p = 4, v = 2, m = 8;
    const MatrixCase c = OffloadCase(p, v, m, ratio);
    const TaskGraph graph = LowerOrDie(c.model, c.plan, true);
    for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
      const std::int64_t blocks = m * (v - (rank == p - 1 ? 1 : 0));
      EXPECT_EQ(Count(graph, rank, OpCode::kCopyD2H), blocks);
      EXPECT_EQ(Count(graph, rank, OpCode::kCopyH2D), blocks);
    }
  }
}

// Host buffers of rank 0 at once: v p + p - 2 in the order of issue (Yuan et al., ATC 2024: the
// block in flight has its buffer already).
TEST(Offload, HostBuffersAtOnce) {
  for (const auto& [p, v, m] : {std::array<std::int64_t, 3>{4, 2, 8}, {3, 3, 9}, {4, 3, 12}}) {
    const MatrixCase c = OffloadCase(p, v, m, 0.5);
    const TaskGraph graph = LowerOrDie(c.model, c.plan, true);
    std::int64_t live = 0, most = 0, block_bytes = 0;
    for (TaskId id = graph.rank_begin[0]; id < graph.rank_begin[1]; ++id) {
      const OpShape& shape = graph.shapes[graph.tasks[id].shape];
      if (shape.op == OpCode::kCopyD2H) {
        most = std::max(most, ++live);
        block_bytes = shape.dims[0];
      }
      if (shape.op == OpCode::kCopyH2D) --live;
    }
    EXPECT_EQ(most, v * p + p - 2);
    const ArenaPlan arena = PlanArena(graph);
    EXPECT_EQ(arena.arena_bytes[0][static_cast<std::size_t>(Pool::kPinnedHost)],
              (v * p + p - 2) * block_bytes);
  }
}

// Two forward slots and two reload slots a rank, whatever the number of blocks.
TEST(Offload, FourSlots) {
  const MatrixCase c = OffloadCase(4, 2, 16, 0.6);
  const TaskGraph graph = LowerOrDie(c.model, c.plan, true);
  std::map<RankId, int> slots;
  for (const Buffer& buffer : graph.buffers)
    slots[buffer.rank] += buffer.role == Role::kOffloadSlot;
  for (const auto& [rank, count] : slots) EXPECT_EQ(count, 4) << "rank " << rank;
}

// The bytes that leave are the asked share of the block, to the buffer alignment.
TEST(Offload, RatioIsExact) {
  std::int64_t whole = 0;
  for (const double ratio : {1.0, 0.0625, 0.25, 0.333, 0.5, 0.75, 0.9}) {
    const MatrixCase c = OffloadCase(4, 2, 8, ratio);
    const TaskGraph graph = LowerOrDie(c.model, c.plan, true);
    std::int64_t bytes = 0;
    for (const Task& task : graph.tasks) {
      const OpShape& shape = graph.shapes[task.shape];
      if (shape.op == OpCode::kCopyD2H) bytes = shape.dims[0];
    }
    if (ratio == 1.0) whole = bytes;
    EXPECT_LE(std::abs(static_cast<double>(bytes) - ratio * static_cast<double>(whole)),
              static_cast<double>(kBufferAlignment))
        << ratio;
  }
}

}  // namespace
}  // namespace twinstep
