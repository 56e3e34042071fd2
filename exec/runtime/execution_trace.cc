#include "exec/runtime/execution_trace.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "sim/graph/memory_timeline.h"
#include "traces/task_trace.h"

namespace twinstep {
namespace {

constexpr std::size_t kMemoryPoints = 500;

std::vector<TraceMemoryCurve> MemoryCurves(const TaskGraph& graph, const Execution& execution) {
  std::vector<TraceMemoryCurve> curves;
  const Result<MemoryTimeline> memory =
      MeasureMemory(graph, execution.start_ps, execution.end_ps, {.max_points = kMemoryPoints});
  if (!memory.ok()) return curves;  // Lengths agree by construction.
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      const PoolMemory& use = memory.value()[rank][pool];
      if (use.peak_bytes == 0) continue;
      TraceMemoryCurve curve;
      curve.rank = rank;
      curve.pool = static_cast<Pool>(pool);
      for (const MemoryPoint& point : use.curve) {
        curve.time_ps.push_back(point.time_ps);
        curve.live_bytes.push_back(point.total_bytes);
      }
      curves.push_back(std::move(curve));
    }
  }
  return curves;
}

}  // namespace

Trace BuildExecutionTrace(const TaskGraph& graph, const Execution& execution,
                          const std::string& name) {
  return BuildTaskTrace(
      graph, {execution.ready_ps, execution.start_ps, execution.end_ps, execution.iteration_ps},
      Trace::EXECUTED, name, MemoryCurves(graph, execution));
}

}  // namespace twinstep
