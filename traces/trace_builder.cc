#include "traces/trace_builder.h"

namespace twinstep {

Trace BuildTrace(const TaskGraph& graph, const Replay& replay, const std::string& name,
                 std::span<const TraceMemoryCurve> memory) {
  return BuildTaskTrace(graph,
                        {replay.ready_ps, replay.start_ps, replay.end_ps, replay.makespan_ps},
                        Trace::SIMULATED, name, memory);
}

}  // namespace twinstep
