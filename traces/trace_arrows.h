// Dependencies to draw in a timeline.
#pragma once

#include <vector>

#include "sim/graph/task_graph.h"
#include "traces/trace.pb.h"

namespace twinstep {

// Events of the trace.
struct TraceArrow {
  int from = 0, to = 0;
};

// Along every edge of the trace's graph that crosses lanes, and from every SEND to its RECV.
std::vector<TraceArrow> ArrowsOf(const Trace& trace, const TaskGraph& graph);

}  // namespace twinstep
