#include "exec/runtime/execution_trace.h"

#include <cstddef>
#include <vector>

#include "sim/graph/memory_timeline.h"
#include "traces/memory_curves.h"
#include "traces/task_trace.h"

namespace twinstep {
namespace {

constexpr std::size_t kMemoryPoints = 500;

}  // namespace

Trace BuildExecutionTrace(const TaskGraph& graph, const Execution& execution,
                          const std::string& name) {
  const Result<MemoryTimeline> memory =
      MeasureMemory(graph, execution.start_ps, execution.end_ps, {.max_points = kMemoryPoints});
  std::vector<TraceMemoryCurve> curves;
  if (memory.ok()) curves = MemoryCurves(memory.value());  // Lengths agree by construction.
  return BuildTaskTrace(
      graph, {execution.ready_ps, execution.start_ps, execution.end_ps, execution.iteration_ps},
      Trace::EXECUTED, name, curves);
}

}  // namespace twinstep
