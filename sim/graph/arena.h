// Offline placement of every buffer in one arena a rank and pool.
//
// Two buffers may share bytes only if a path of the graph already orders every access of one
// before the first access of the other (on any lanes), so the placement adds no edge, never
// changes time, and holds for any legal dispatch order. Persistent buffers share with none.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

inline constexpr std::int64_t kBufferAlignment = 256;

struct ArenaPlan {
  std::vector<std::int64_t> offset;  // By buffer, in its rank's arena of its pool.
  // Arena bytes by rank and pool.
  std::vector<std::array<std::int64_t, kPoolCount>> arena_bytes;
  // Lower bound: the most bytes alive at once in issue order, by rank and pool.
  std::vector<std::array<std::int64_t, kPoolCount>> live_bound_bytes;
};

ArenaPlan PlanArena(const TaskGraph& graph);

}  // namespace twinstep
