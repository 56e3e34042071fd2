// What swapped and checkpointed blocks leave of the GPU's memory, in arenas that hold for any legal
// order of dispatch.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/graph/arena.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"
#include "tests/graph/arena_checker.h"
#include "tests/graph/dispatch.h"

namespace twinstep {
namespace {

constexpr auto kGpu = static_cast<std::size_t>(Pool::kGpu);
constexpr auto kPinned = static_cast<std::size_t>(Pool::kPinnedHost);

struct Peak {
  std::int64_t gpu = 0, pinned = 0;
  std::int64_t gpu_live = 0;    // In issue order, without holes.
  std::int64_t swap_slots = 0;  // Two for the way out among them.
};

Peak PeakOf(Plan plan) {
  const Model model = FindModel("gpt2-10b").value();
  const Cluster cluster = FindCluster("4x3090").value();
  plan.set_sequence_length(1024);
  plan.set_global_batch(8);
  plan.set_micro_batch(8);
  plan.set_persistent_chunks(1);
  const Result<ResolvedPlan> resolved = ResolvePlan(model, cluster, plan, 1);
  EXPECT_TRUE(resolved.ok()) << resolved.error().message;
  const Result<TaskGraph> graph = Lower(model, cluster, resolved.value());
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  const ArenaPlan arena = PlanArena(graph.value());
  EXPECT_EQ(CheckArenaInOrder(graph.value(), arena, RandomDispatch(graph.value(), /*seed=*/1)), "");
  EXPECT_LE(static_cast<double>(arena.arena_bytes[0][kGpu]),
            1.05 * static_cast<double>(arena.live_bound_bytes[0][kGpu]));
  const std::vector<Buffer>& buffers = graph.value().buffers;
  return {.gpu = arena.arena_bytes[0][kGpu],
          .pinned = arena.arena_bytes[0][kPinned],
          .gpu_live = arena.live_bound_bytes[0][kGpu],
          .swap_slots = std::count_if(buffers.begin(), buffers.end(), [](const Buffer& buffer) {
            return buffer.role == Role::kOffloadSlot && buffer.pool == Pool::kGpu;
          })};
}

// In ProTrain's arrangement.
Peak PeakOf(std::int64_t swapped, std::int64_t checkpointed) {
  Plan plan;
  plan.set_swapped_blocks(swapped);
  plan.set_checkpointed_blocks(checkpointed);
  return PeakOf(plan);
}

// The swapped ones first.
Plan Blocks(std::int64_t swapped, std::int64_t checkpointed) {
  Plan plan;
  for (std::int64_t i = 0; i < swapped; ++i) plan.add_blocks(BLOCK_SWAP);
  for (std::int64_t i = 0; i < checkpointed; ++i) plan.add_blocks(BLOCK_CHECKPOINT);
  return plan;
}

// Each swapped block moves its bytes to the host, and takes none on the GPU until others have left.
TEST(BlockMemoryTest, SwappedBlocksLeaveTheGpu) {
  const Peak kept = PeakOf(0, 0);
  const Peak one = PeakOf(1, 0);
  const std::int64_t block_bytes = one.pinned - kept.pinned;
  EXPECT_GT(block_bytes, std::int64_t{1} << 30);
  for (const std::int64_t swapped : {1, 2, 4, 12}) {
    const Peak peak = PeakOf(swapped, 0);
    EXPECT_EQ(peak.pinned - kept.pinned, swapped * block_bytes);
    EXPECT_EQ(kept.gpu_live - peak.gpu_live, swapped * block_bytes) << swapped;
    EXPECT_GT(kept.gpu - peak.gpu, swapped * block_bytes - block_bytes / 4) << swapped;
  }
}

// Where no block is kept, one slot comes back at a time.
TEST(BlockMemoryTest, SwappedAmongCheckpointed) {
  const Peak checkpointed = PeakOf(0, 48);
  const Peak mixed = PeakOf(4, 44);
  const std::int64_t block_bytes = (mixed.pinned - checkpointed.pinned) / 4;
  EXPECT_GT(mixed.gpu, checkpointed.gpu - block_bytes);
  EXPECT_LT(mixed.gpu, checkpointed.gpu + block_bytes);
}

// Swapped blocks side by side: behind the last recomputed block two come back at a time, in the
// memory that the others and their recomputation have left.
TEST(BlockMemoryTest, SwappedBeforeCheckpointed) {
  const Peak checkpointed = PeakOf(Blocks(0, 48));
  const Peak side_by_side = PeakOf(Blocks(16, 32));
  EXPECT_EQ(side_by_side.swap_slots, 2 + 2);
  EXPECT_LT(side_by_side.gpu_live, checkpointed.gpu_live);
}

}  // namespace
}  // namespace twinstep
