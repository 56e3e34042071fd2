// The replay inside SimGrid 3.32. SimGrid keeps its state in the process and cannot be started
// twice: see simgrid_engine.cc, which gives each replay a process of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/engine/topology.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

struct SimgridRecord {
  // By task; kNotDone where it did not start, end or become ready.
  std::vector<Picoseconds> start_ps, end_ps, ready_ps;
  std::vector<std::uint32_t> pending;      // Predecessors that did not end.
  std::vector<Picoseconds> boost_left_ps;  // As Replay's, by rank; 0 without clocks.
};

// By link, the whole number to multiply capacity and multiplicities with so that all
// multiplicities on it are whole. SimGrid counts a link as often as it stands in a route. Error
// (kBadInput) where the fractions have no common denominator up to 64.
Result<std::vector<std::uint32_t>> LinkScales(const GraphCosts& costs);

// Expects checked costs. May be called once a process.
SimgridRecord ReplayInSimgrid(const TaskGraph& graph, const GraphCosts& costs,
                              const Topology& topology, std::vector<std::uint32_t> pending,
                              const std::vector<std::uint32_t>& link_scales);

}  // namespace twinstep
