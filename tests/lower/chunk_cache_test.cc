#include "sim/lower/chunk_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace twinstep {
namespace {

std::vector<ChunkUse> Uses(std::initializer_list<std::uint32_t> chunks) {
  std::vector<ChunkUse> uses;
  for (const std::uint32_t chunk : chunks) uses.push_back({.chunks = {chunk}});
  return uses;
}

std::size_t Loads(const ChunkCachePlan& plan) {
  std::size_t loads = 0;
  for (const auto& before : plan.before) loads += before.size();
  return loads;
}

// Forward and backward through five chunks: the last three are still there.
TEST(ChunkCacheTest, KeepsWhatTheForwardUsedLast) {
  const ChunkCachePlan plan = *PlanChunkCache(Uses({0, 1, 2, 3, 4, 4, 3, 2, 1, 0}), 3);
  EXPECT_EQ(plan.before[0], (std::vector<ChunkLoad>{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_EQ(plan.before[1], (std::vector<ChunkLoad>{{3, 0}}));
  EXPECT_EQ(plan.before[2], (std::vector<ChunkLoad>{{4, 1}}));
  EXPECT_TRUE(plan.before[5].empty());
  // 4 is done: 1 takes its place while 3 and 2 compute.
  EXPECT_EQ(plan.before[6], (std::vector<ChunkLoad>{{1, 1}}));
  EXPECT_EQ(plan.before[7], (std::vector<ChunkLoad>{{0, 0}}));
  EXPECT_EQ(Loads(plan), 7u);
}

TEST(ChunkCacheTest, HeldBuffersAreNotTaken) {
  std::vector<ChunkUse> uses = Uses({0, 1, 2, 1, 0});
  uses[2] = {.chunks = {2, 0}, .held = {0}};
  EXPECT_TRUE(PlanChunkCache(uses, 2));
  uses[2].chunks = {2, 0, 1};
  EXPECT_FALSE(PlanChunkCache(uses, 2));
}

TEST(ChunkCacheTest, UseOfMoreThanThereIs) {
  EXPECT_FALSE(PlanChunkCache({{.chunks = {0, 1}}}, 1));
  EXPECT_FALSE(PlanChunkCache(Uses({0}), 0));
  EXPECT_TRUE(PlanChunkCache({{.chunks = {}}}, 0));
}

// Every chunk is there when it is used, and no other order of evictions would load less often than
// Belady's, which loads on demand.
RC_GTEST_PROP(ChunkCacheProperty, LoadsAsFewAsBelady, ()) {
  const auto order =
      *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 8));
  const auto buffers = *rc::gen::inRange<std::uint32_t>(1, 6);
  std::vector<ChunkUse> uses;
  for (const std::uint32_t chunk : order) uses.push_back({.chunks = {chunk}});
  const auto plan = PlanChunkCache(uses, buffers);
  RC_ASSERT(plan.has_value());
  std::vector<std::int64_t> in_buffer(buffers, -1);
  std::set<std::uint32_t> belady;
  std::size_t belady_loads = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const ChunkLoad& load : plan->before[i]) {
      RC_ASSERT(load.buffer < buffers);
      in_buffer[load.buffer] = load.chunk;
    }
    RC_ASSERT(std::ranges::count(in_buffer, std::int64_t{order[i]}) == 1);
    if (belady.contains(order[i])) continue;
    ++belady_loads;
    if (belady.size() == buffers) {
      const auto next_use = [&](std::uint32_t chunk) {
        return std::find(order.begin() + static_cast<std::ptrdiff_t>(i), order.end(), chunk);
      };
      belady.erase(*std::ranges::max_element(belady, {}, next_use));
    }
    belady.insert(order[i]);
  }
  RC_ASSERT(Loads(*plan) == belady_loads);
}

}  // namespace
}  // namespace twinstep
