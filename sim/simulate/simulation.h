// Model, cluster and plan to a replayed iteration and its report.
//
//   Result<Simulation> done = Simulate(input, nullptr);
//   if (!done.ok()) return done.error();            // Bad input.
//   std::cout << ToText(done.value().report);       // Also says if the plan is infeasible.
#pragma once

#include <optional>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/graph/arena.h"
#include "sim/graph/memory_timeline.h"
#include "sim/graph/task_graph.h"
#include "sim/report/progress.h"
#include "sim/report/report.h"
#include "sim/simulate/simulate_input.h"

namespace twinstep {

struct SimulatedIteration {
  TaskGraph graph;
  GraphCosts costs;
  Replay replay;
  ArenaPlan arena;
  MemoryTimeline memory;
};

struct Simulation {
  Report report;
  std::optional<SimulatedIteration> iteration;  // None where the plan cannot be lowered or run.
};

// How many times Simulate calls progress->Step().
inline constexpr std::size_t kSimulateSteps = 5;

// Infeasible plans are reports. `progress` may be null. Memory curves have at most `memory_points`
// points; 0: there are none.
Result<Simulation> Simulate(const SimulateInput& input, Progress* progress,
                            std::size_t memory_points = 0);

// The plan with every default written out and the offload ratio solved, as Simulate lowers it.
Result<ResolvedPlan> ResolveForSimulation(const SimulateInput& input);

}  // namespace twinstep
