// When the bytes of a rank's buffers are in use, as far as the graph itself orders it.
//
// A buffer's birth is what is certain to have finished before any access to it, a vector clock
// over the rank's lanes; its death is what has to finish before its bytes are free. A's bytes can
// pass to B exactly if death(A) <= birth(B), lane by lane: then a path orders every access of A
// before every access of B.
//
// For sweeps, each life is also projected on one lane, the one on which most buffers of its pool
// are born: `interval` counts half steps of that lane, and intervals of one pool that do not meet
// belong to ordered buffers. (The converse holds for buffers born on that lane.)
//
//   BufferLifetimes lives(graph, rank, buffers_of_rank, VectorClocks(graph), LanePositions(graph));
//   if (lives.Before(i, j)) ...
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

// Half-open.
struct LiveInterval {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

class BufferLifetimes {
 public:
  // `buffers`: those of `rank`, by increasing id; a life's index is its place in this list.
  // `clocks` and `positions` as in verifier.h, for the whole graph.
  BufferLifetimes(const TaskGraph& graph, RankId rank, std::span<const BufferId> buffers,
                  std::span<const std::uint32_t> clocks, std::span<const std::uint32_t> positions);

  std::size_t size() const { return lives_.size(); }
  bool IsAccessed(std::size_t i) const { return lives_[i].last >= lives_[i].first; }
  // Issue index of the first and last access, counted from the rank's first task.
  std::uint32_t first(std::size_t i) const { return lives_[i].first; }
  std::uint32_t last(std::size_t i) const { return lives_[i].last; }
  LiveInterval interval(std::size_t i) const { return lives_[i].interval; }

  // Whether every access of i is ordered before every access of j. Both must be accessed.
  bool Before(std::size_t i, std::size_t j) const {
    return IsAtMost(lives_[i].death, lives_[j].birth);
  }

 private:
  using Clock = std::array<std::uint32_t, kLaneCount>;
  struct Life {
    Clock birth, death;
    std::uint32_t first = 1, last = 0;  // None yet.
    LiveInterval interval;
  };

  static bool IsAtMost(const Clock& a, const Clock& b) {
    bool result = true;
    for (std::size_t lane = 0; lane < kLaneCount; ++lane) result &= a[lane] <= b[lane];
    return result;
  }
  void Project(const TaskGraph& graph, RankId rank, std::span<const BufferId> buffers, Pool pool,
               std::span<const std::uint32_t> clocks);

  std::vector<Life> lives_;
};

}  // namespace twinstep
