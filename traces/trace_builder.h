// A replayed task graph as a Trace.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"
#include "traces/trace.pb.h"

namespace twinstep {

// Live bytes of one pool of one rank; each point holds until the next one.
struct TraceMemoryCurve {
  RankId rank = 0;
  Pool pool = Pool::kGpu;
  std::vector<Picoseconds> time_ps;
  std::vector<std::int64_t> live_bytes;
};

// Events are sorted by rank, start and task id. `name` says what was simulated.
Trace BuildTrace(const TaskGraph& graph, const Replay& replay, const std::string& name,
                 std::span<const TraceMemoryCurve> memory = {});

}  // namespace twinstep
