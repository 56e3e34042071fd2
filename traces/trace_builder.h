// A replayed task graph as a Trace.
#pragma once

#include <span>
#include <string>

#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"
#include "traces/task_trace.h"
#include "traces/trace.pb.h"

namespace twinstep {

// Events are sorted by rank, start and task id. `name` says what was simulated.
Trace BuildTrace(const TaskGraph& graph, const Replay& replay, const std::string& name,
                 std::span<const TraceMemoryCurve> memory = {});

}  // namespace twinstep
