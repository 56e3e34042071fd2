#include "sim/graph/buffer_lifetimes.h"

#include <algorithm>

namespace twinstep {
namespace {

constexpr std::uint32_t kNever = 0xffffffff;

}  // namespace

BufferLifetimes::BufferLifetimes(const TaskGraph& graph, RankId rank,
                                 std::span<const BufferId> buffers,
                                 std::span<const std::uint32_t> clocks,
                                 std::span<const std::uint32_t> positions)
    : lives_(buffers.size()) {
  for (Life& life : lives_) {
    life.birth.fill(kNever);
    life.death.fill(0);
  }
  const TaskId begin = graph.rank_begin[rank];
  const TaskId end = graph.rank_begin[rank + 1];
  // A rank's buffers usually have consecutive ids, which saves the search.
  const bool is_dense = !buffers.empty() && buffers.back() - buffers.front() + 1 == buffers.size();
  const auto index_of = [&](BufferId buffer) -> std::size_t {
    if (is_dense) return buffer - buffers.front();
    return static_cast<std::size_t>(std::lower_bound(buffers.begin(), buffers.end(), buffer) -
                                    buffers.begin());
  };
  for (TaskId id = begin; id < end; ++id) {
    const Task& task = graph.tasks[id];
    const auto lane = static_cast<std::size_t>(task.lane);
    const std::uint32_t* clock = &clocks[std::size_t{id} * kLaneCount];
    const std::size_t operand_count = std::size_t{task.read_count} + task.write_count;
    for (std::size_t k = 0; k < operand_count; ++k) {
      Life& life = lives_[index_of(graph.operands[task.operand_begin + k].buffer)];
      if (life.last < life.first) life.first = id - begin;
      life.last = id - begin;
      // Later accesses on a lane know at least what the lane's first one knew.
      if (life.death[lane] == 0) {
        for (std::size_t l = 0; l < kLaneCount; ++l) {
          life.birth[l] = std::min(life.birth[l], clock[l]);
        }
      }
      life.death[lane] = positions[id] + 1;
    }
  }
  for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
    Project(graph, rank, buffers, static_cast<Pool>(pool), clocks);
  }
}

void BufferLifetimes::Project(const TaskGraph& graph, RankId rank,
                              std::span<const BufferId> buffers, Pool pool,
                              std::span<const std::uint32_t> clocks) {
  const TaskId begin = graph.rank_begin[rank];
  const auto in_pool = [&](std::size_t i) {
    return graph.buffers[buffers[i]].pool == pool && IsAccessed(i);
  };
  std::array<std::size_t, kLaneCount> births{};
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    if (in_pool(i)) ++births[static_cast<std::size_t>(graph.tasks[begin + lives_[i].first].lane)];
  }
  const auto lane =
      static_cast<std::size_t>(std::max_element(births.begin(), births.end()) - births.begin());
  if (births[lane] == 0) return;
  std::vector<Clock> axis;
  for (TaskId id = begin; id < graph.rank_begin[rank + 1]; ++id) {
    if (static_cast<std::size_t>(graph.tasks[id].lane) != lane) continue;
    axis.emplace_back();
    std::copy_n(&clocks[std::size_t{id} * kLaneCount], kLaneCount, axis.back().begin());
  }
  // Step 2 k: k tasks of the lane have finished. Step 2 k + 1: also whatever task k waits for.
  const auto length = static_cast<std::uint32_t>(axis.size());
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    if (!in_pool(i)) continue;
    Life& life = lives_[i];
    const std::uint32_t born = life.birth[lane];
    const bool knows_more = born < length && IsAtMost(axis[born], life.birth);
    life.interval.begin = 2 * born + (knows_more ? 1 : 0);
    // Clocks grow along a lane.
    const auto first_knowing =
        std::partition_point(axis.begin() + life.death[lane], axis.end(),
                             [&](const Clock& clock) { return !IsAtMost(life.death, clock); });
    const auto k = static_cast<std::uint32_t>(first_knowing - axis.begin());
    life.interval.end = 2 * k + 1;
    if (k > 0) {
      Clock finished = axis[k - 1];
      finished[lane] = k;
      if (IsAtMost(life.death, finished)) life.interval.end = 2 * k;
    }
  }
}

}  // namespace twinstep
