// Offline placement of every buffer in one arena a rank and pool.
//
// Two buffers may share bytes only if a path of the graph already orders every access of one
// before the first access of the other (on any lanes), so the placement adds no edge, never
// changes time, and holds for any legal dispatch order of one iteration (the next one starts when
// this one has ended). Persistent buffers share with none; a buffer that no task touches takes no
// place of its own.
//
//   ArenaPlan plan = PlanArena(graph);  // Of a graph that Verify accepts.
//   plan.offset[buffer], plan.arena_bytes[rank][static_cast<std::size_t>(Pool::kGpu)]
//
// How close to the live bound: placement itself costs 0 to 3 %. The rest is the price of holding
// for any legal order. Where another lane may fill a buffer early (RECV, reload) or let go of it
// late (SEND, offload), some legal order keeps more alive than issue order does, and no placement
// can be smaller than that. Edges that make such a lane wait, as slots do, lower it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

struct ArenaPlan {
  std::vector<std::int64_t> offset;  // By buffer, in its rank's arena of its pool.
  // Arena bytes by rank and pool.
  std::vector<std::array<std::int64_t, kPoolCount>> arena_bytes;
  // Lower bound: the most bytes alive at once in issue order, by rank and pool.
  std::vector<std::array<std::int64_t, kPoolCount>> live_bound_bytes;
};

// O(n log n) in tasks and buffers, replicas of a rank being planned once; the strongest placement
// strategy is quadratic in what lives at once and given up where that is too much.
ArenaPlan PlanArena(const TaskGraph& graph);

// What PlanArena's plan needs, without the plan: for searches, which ask for little else. Of GPU
// memory only the fullest rank is placed with every strategy; a rank that a cheap placement already
// puts below it is not.
//
//   ArenaPeaks peaks = FindArenaPeaks(graph);
//   peaks.gpu_bytes  // The largest arena_bytes of any rank's GPU pool, the same number.
struct ArenaPeaks {
  RankId fullest_rank = 0;          // By GPU memory; the first of equals.
  std::int64_t gpu_bytes = 0;       // Its arena,
  std::int64_t gpu_live_bytes = 0;  // and live bound.
  // By rank, the pools in host memory as in ArenaPlan; the GPU's is 0.
  std::vector<std::array<std::int64_t, kPoolCount>> host_bytes;
};
ArenaPeaks FindArenaPeaks(const TaskGraph& graph);

}  // namespace twinstep
