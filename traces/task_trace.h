// The tasks of a graph with the times at which they ran as a Trace, simulated or executed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/graph/task_graph.h"
#include "traces/trace.pb.h"

namespace twinstep {

// By task, in picoseconds since the iteration began.
struct TaskTimes {
  std::span<const std::int64_t> ready_ps;  // The task's own predecessors had ended.
  std::span<const std::int64_t> start_ps;  // Of a rendezvous: when all members were ready.
  std::span<const std::int64_t> end_ps;
  std::int64_t iteration_ps = 0;
};

// Live bytes of one pool of one rank; each point holds until the next one.
struct TraceMemoryCurve {
  RankId rank = 0;
  Pool pool = Pool::kGpu;
  std::vector<std::int64_t> time_ps;
  std::vector<std::int64_t> live_bytes;
};

// Payload of a task in bytes: what a copy or a message moves, the whole tensor of a collective;
// 0 for computation.
std::int64_t PayloadBytes(const TaskGraph& graph, TaskId id);

// Events are sorted by rank, start and task id. `name` says what was run.
Trace BuildTaskTrace(const TaskGraph& graph, const TaskTimes& times, Trace::Origin origin,
                     const std::string& name, std::span<const TraceMemoryCurve> memory);

}  // namespace twinstep
