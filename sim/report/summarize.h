// From a replay to the figures of the report.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sim/engine/engine.h"
#include "sim/graph/arena.h"
#include "sim/graph/memory_timeline.h"
#include "sim/report/report.h"

namespace twinstep {

struct SimulationRun {
  const TaskGraph& graph;
  const GraphCosts& costs;
  const Replay& replay;
  const ArenaPlan& arena;
  const MemoryTimeline& memory;
};

// `report` holds the echo (model, cluster, plan) that the figures refer to.
SimulationResults Summarize(const Report& report, const SimulationRun& run);

// Pinned and pageable host memory of the fullest node, from the arenas of each rank of the graph.
HostReport SumHostMemory(const TaskGraph& graph,
                         std::span<const std::array<std::int64_t, kPoolCount>> arena_bytes,
                         const ResolvedPlan& plan, std::int64_t gpus_per_node);

}  // namespace twinstep
