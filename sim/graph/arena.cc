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

  ArenaPeaks Peaks() {
    constexpr auto kGpu = static_cast<std::size_t>(Pool::kGpu);
    const std::vector<RankId> twins = RankTwins(graph_, buffers_);
    ArenaPeaks peaks;
    peaks.host_bytes.resize(graph_.ranks.size());
    std::vector<std::pair<std::int64_t, RankId>> at_most;  // GPU bytes of a cheap placement.
    for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
      if (twins[rank] != rank) {
        peaks.host_bytes[rank] = peaks.host_bytes[twins[rank]];
        continue;
      }
      const BufferLifetimes lives(graph_, rank, buffers_[rank], clocks_, positions_);
      for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
        const PoolItems x = Collect(rank, pool, lives, nullptr);
        if (pool == kGpu) {
          at_most.emplace_back(x.ArenaBytes(PlaceCheaply(x.items).height), rank);
        } else {
          peaks.host_bytes[rank][pool] = x.ArenaBytes(PlaceBest(x.items, lives, x.base).height);
        }
      }
    }
    // The fullest first; of equals the lowest rank.
    std::stable_sort(at_most.begin(), at_most.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    bool found = false;
    for (const auto& [bytes, rank] : at_most) {
      if (found && bytes < peaks.gpu_bytes) break;
      const BufferLifetimes lives(graph_, rank, buffers_[rank], clocks_, positions_);
      const PoolItems x = Collect(rank, kGpu, lives, nullptr);
      const std::int64_t arena = x.ArenaBytes(PlaceBest(x.items, lives, x.base).height);
      if (found &&
          (arena < peaks.gpu_bytes || (arena == peaks.gpu_bytes && rank > peaks.fullest_rank))) {
        continue;
      }
      found = true;
      peaks.fullest_rank = rank;
      peaks.gpu_bytes = arena;
      peaks.gpu_live_bytes = x.live_bound_bytes;
    }
    return peaks;
  }

 private:
  void PlanRank(RankId rank) {
    const BufferLifetimes lives(graph_, rank, buffers_[rank], clocks_, positions_);
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      const PoolItems x = Collect(rank, pool, lives, &plan_.offset);
      const Placement placement = PlaceBest(x.items, lives, x.base);
      for (std::size_t i = 0; i < x.items.size(); ++i) {
        plan_.offset[x.buffers[i]] = x.base + placement.offset[i];
      }
      plan_.arena_bytes[rank][pool] = x.ArenaBytes(placement.height);
      plan_.live_bound_bytes[rank][pool] = x.live_bound_bytes;
    }
  }

  // What is to be placed in one pool of one rank.
  struct PoolItems {
    std::int64_t base = 0;    // Persistent buffers lie below the others.
    std::int64_t unused = 0;  // The largest buffer that no task touches: it needs no place.
    std::int64_t live_bound_bytes = 0;  // Without alignment.
    std::vector<PlacementItem> items;
    std::vector<BufferId> buffers;  // By item.

    std::int64_t ArenaBytes(std::int64_t height) const { return std::max(base + height, unused); }
  };

  // Offsets of persistent buffers go to `offset`, if it is not null.
  PoolItems Collect(RankId rank, std::size_t pool, const BufferLifetimes& lives,
                    std::vector<std::int64_t>* offset) const {
    const std::vector<BufferId>& buffers = buffers_[rank];
    PoolItems x;
    std::int64_t persistent = 0;  // Without alignment.
    std::vector<PlacementItem> in_issue_order;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& buffer = graph_.buffers[buffers[i]];
      if (static_cast<std::size_t>(buffer.pool) != pool) continue;
      const std::int64_t bytes = Aligned(buffer.bytes);
      if (buffer.persistent) {
        if (offset != nullptr) (*offset)[buffers[i]] = x.base;
        x.base += bytes;
        persistent += buffer.bytes;
      } else if (!lives.IsAccessed(i)) {
        x.unused = std::max(x.unused, bytes);
      } else if (bytes > 0) {
        x.items.push_back({.bytes = bytes, .interval = lives.interval(i), .life = i});
        in_issue_order.push_back(
            {.bytes = buffer.bytes, .interval = {lives.first(i), lives.last(i) + 1}, .life = i});
        x.buffers.push_back(buffers[i]);
      }
    }
    x.live_bound_bytes = persistent + PeakBytes(in_issue_order);
    return x;
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

ArenaPeaks FindArenaPeaks(const TaskGraph& graph) { return Planner(graph).Peaks(); }

}  // namespace twinstep
