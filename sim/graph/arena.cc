#include "sim/graph/arena.h"

#include <algorithm>
#include <utility>

#include "sim/graph/buffer_lifetimes.h"
#include "sim/graph/placement.h"
#include "sim/graph/rank_twins.h"
#include "sim/graph/verifier.h"

namespace twinstep {
namespace {

std::int64_t Aligned(std::int64_t bytes) {
  return (std::max<std::int64_t>(bytes, 0) + kBufferAlignment - 1) / kBufferAlignment *
         kBufferAlignment;
}

class Planner {
 public:
  explicit Planner(const TaskGraph& graph)
      : graph_(graph),
        buffers_(BuffersByRank(graph)),
        clocks_(VectorClocks(graph)),
        positions_(LanePositions(graph)) {
    plan_.offset.assign(graph.buffers.size(), 0);
    plan_.arena_bytes.resize(graph.ranks.size());
    plan_.live_bound_bytes.resize(graph.ranks.size());
  }

  ArenaPlan Plan() {
    const std::vector<RankId> twins = RankTwins(graph_, buffers_);
    for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
      if (twins[rank] == rank) {
        PlanRank(rank);
      } else {
        CopyPlan(twins[rank], rank);
      }
    }
    return std::move(plan_);
  }

 private:
  void PlanRank(RankId rank) {
    const BufferLifetimes lives(graph_, rank, buffers_[rank], clocks_, positions_);
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) PlanPool(rank, pool, lives);
  }

  void PlanPool(RankId rank, std::size_t pool, const BufferLifetimes& lives) {
    const std::vector<BufferId>& buffers = buffers_[rank];
    std::int64_t base = 0;        // Persistent buffers lie below the others.
    std::int64_t persistent = 0;  // The same without alignment.
    std::int64_t unused = 0;      // The largest buffer that no task touches: it needs no place.
    std::vector<PlacementItem> items, in_issue_order;
    std::vector<BufferId> item_buffers;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& buffer = graph_.buffers[buffers[i]];
      if (static_cast<std::size_t>(buffer.pool) != pool) continue;
      const std::int64_t bytes = Aligned(buffer.bytes);
      if (buffer.persistent) {
        plan_.offset[buffers[i]] = base;
        base += bytes;
        persistent += buffer.bytes;
      } else if (!lives.IsAccessed(i)) {
        unused = std::max(unused, bytes);
      } else if (bytes > 0) {
        items.push_back({.bytes = bytes, .interval = lives.interval(i), .life = i});
        in_issue_order.push_back(
            {.bytes = buffer.bytes, .interval = {lives.first(i), lives.last(i) + 1}, .life = i});
        item_buffers.push_back(buffers[i]);
      }
    }
    const Placement placement = PlaceBest(items, lives, base);
    for (std::size_t i = 0; i < items.size(); ++i) {
      plan_.offset[item_buffers[i]] = base + placement.offset[i];
    }
    plan_.arena_bytes[rank][pool] = std::max(base + placement.height, unused);
    plan_.live_bound_bytes[rank][pool] = persistent + PeakBytes(in_issue_order);
  }

  void CopyPlan(RankId from, RankId to) {
    for (std::size_t i = 0; i < buffers_[to].size(); ++i) {
      plan_.offset[buffers_[to][i]] = plan_.offset[buffers_[from][i]];
    }
    plan_.arena_bytes[to] = plan_.arena_bytes[from];
    plan_.live_bound_bytes[to] = plan_.live_bound_bytes[from];
  }

  const TaskGraph& graph_;
  std::vector<std::vector<BufferId>> buffers_;
  std::vector<std::uint32_t> clocks_, positions_;
  ArenaPlan plan_;
};

}  // namespace

ArenaPlan PlanArena(const TaskGraph& graph) { return Planner(graph).Plan(); }

}  // namespace twinstep
