// What each lane of a rank carried, and how much of it hid behind computation.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

struct LaneUse {
  std::int64_t tasks = 0;
  std::int64_t bytes = 0;      // Payload moved; 0 on the compute lane.
  Picoseconds busy_ps = 0;     // A task of the lane runs.
  Picoseconds exposed_ps = 0;  // ... and no compute task of the rank does.
  Picoseconds waiting_ps = 0;  // A task is ready and its partners are not.
};
using RankLanes = std::array<LaneUse, kLaneCount>;

// By rank of the graph.
std::vector<RankLanes> UseOfLanes(const TaskGraph& graph, const Replay& replay);

}  // namespace twinstep
