// Live bytes over time as a trace has them.
#pragma once

#include <vector>

#include "sim/graph/memory_timeline.h"
#include "traces/task_trace.h"

namespace twinstep {

// A curve for each pool of each rank that holds anything. The timeline must have been measured with
// points.
std::vector<TraceMemoryCurve> MemoryCurves(const MemoryTimeline& memory);

}  // namespace twinstep
