#include "traces/check_trace.h"

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "sim/graph/ids.h"

namespace twinstep {

std::string TraceProblem(const Trace& trace) {
  const int events = trace.task_size();
  const auto wrong_size = [events](const char* name, int size) {
    return std::string("column ") + name + " has " + std::to_string(size) + " entries, task has " +
           std::to_string(events);
  };
  for (const auto& [name, column] :
       {std::pair{"ready_ps", &trace.ready_ps()}, std::pair{"start_ps", &trace.start_ps()},
        std::pair{"end_ps", &trace.end_ps()}, std::pair{"bytes", &trace.bytes()}}) {
    if (column->size() != events) return wrong_size(name, column->size());
  }
  for (const auto& [name, column] :
       {std::pair{"micro_batch", &trace.micro_batch()}, std::pair{"stage", &trace.stage()},
        std::pair{"block", &trace.block()}, std::pair{"chunk", &trace.chunk()}}) {
    if (column->size() != events) return wrong_size(name, column->size());
  }
  for (const auto& [name, column, limit] :
       {std::tuple{"rank", &trace.rank(), trace.ranks_size()},
        std::tuple{"lane", &trace.lane(), trace.lanes_size()},
        std::tuple{"kind", &trace.kind(), trace.kinds_size()},
        std::tuple{"phase", &trace.phase(), trace.phases_size()},
        std::tuple{"op", &trace.op(), trace.operators_size()}}) {
    if (column->size() != events) return wrong_size(name, column->size());
    const auto bad = std::find_if(column->begin(), column->end(), [limit = limit](std::uint32_t x) {
      return x >= static_cast<std::uint32_t>(limit);
    });
    if (bad != column->end()) {
      return std::string("column ") + name + " holds " + std::to_string(*bad) + ", there are " +
             std::to_string(limit);
    }
  }
  for (const Trace::MemoryCurve& curve : trace.memory()) {
    if (curve.time_ps_size() != curve.live_bytes_size()) return "a memory curve is incomplete";
    if (curve.rank() >= static_cast<std::uint32_t>(trace.ranks_size())) {
      return "a memory curve is of rank " + std::to_string(curve.rank());
    }
    if (curve.pool() >= kPoolCount) {
      return "a memory curve is of pool " + std::to_string(curve.pool());
    }
  }
  return "";
}

}  // namespace twinstep
