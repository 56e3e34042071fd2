// The costs of a graph as the fast engine computes with them: checked, in exact integers, and with
// every link dropped that can never limit a flow.
//
// A lane runs one task at a time, so the flows that can cross a link at once are at most one
// task's a lane. A link that bears all of them at their full rates is never a bottleneck: flows
// that cross only such links are *private*, they run at a constant rate and no other flow needs to
// know of them. What remains are *shared* flows, whose rates the max-min solver decides.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/engine/fixed_point.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

struct SharedHop {
  std::uint32_t link = 0;  // Into GraphCosts::links.
  double weight = 1;       // The hop's multiplicity.
  Work demand = 0;         // Capacity that the flow takes at its full rate, in rate units.
};

struct SharedFlow {
  Work work = 0;
  FixedRate cap = 0;  // Rate of the flow alone.
  std::uint32_t hop_begin = 0, hop_count = 0;
  std::uint32_t host = kNone, host_gpus = 1;  // As Flow's.
  bool to_gpu = false;
};

// As GraphCosts::host_copies, by state.
struct HostCopyCaps {
  std::vector<FixedRate> h2d, d2h;
};

struct PreparedCost {
  Picoseconds fixed_ps = 0;
  // All private flows of a task run side by side and slow down together: the slowest decides.
  Work private_work = 0;  // 0 = none.
  FixedRate private_rate = 1;
  std::uint32_t shared_begin = 0, shared_count = 0;  // Into CostTable::flows.
  // Speed of a compute task by 1 x (an H2D runs) + 2 x (a collective, send or receive runs) + 4 x
  // (a D2H runs) + 8 x (the GPU's clocks are high).
  std::array<std::uint64_t, 16> compute_speed{};
  std::uint64_t communication_speed = kFullSpeed;  // Of a movement between ranks beside compute.
  KernelTurn turn = KernelTurn::kNever;
  Picoseconds lets_in_ps = 0;  // In (0, fixed_ps], where the task takes turns.
  // Of a fused computation, as in TaskCost.
  std::uint32_t segment_begin = 0, segment_count = 0;
};

// By 1 x (compute runs) + 2 x (a HOST task runs) + 4 x (a copy of the other direction runs).
using CopySpeeds = std::array<std::uint64_t, 8>;

struct CostTable {
  std::vector<PreparedCost> costs;    // By index of GraphCosts::costs.
  std::vector<Picoseconds> alone_ps;  // Fixed time plus slowest flow at full rate.
  std::vector<Picoseconds> least_ps;  // The same at the highest clocks.
  std::vector<SharedFlow> flows;
  std::vector<SharedHop> hops;
  std::vector<double> link_capacity;  // By link, in rate units.
  std::uint32_t hosts = 0;
  HostCopyRates host_copies;
  HostCopyCaps host_caps;
  CopySpeeds h2d_speed{}, d2h_speed{};
  // Whether some task has another speed beside it.
  bool copy_slows_compute = false, collective_slows_compute = false,
       compute_slows_collective = false;
  bool copies_change_speed = false;
  bool kernels_take_turns = false;  // Some movement needs multiprocessors.
  Picoseconds handoff_ps = 0, meeting_ps = 0;
  WorkerPool workers;
  ClockBoost clocks;
  std::vector<double> busy_slowdown;  // By index of GraphCosts::costs.
  bool busy_threads_slow = false;     // Some busy_slowdown is not 1.

  bool HasInterference() const {
    return copy_slows_compute || collective_slows_compute || compute_slows_collective ||
           copies_change_speed || clocks.boost_ps > 0;
  }
  // Whether tasks begin when their predecessors have ended and end after their time alone.
  bool IsLongestPath() const {
    return workers.threads == 0 && flows.empty() && !HasInterference() && !kernels_take_turns &&
           handoff_ps == 0 && meeting_ps == 0;
  }
};

// Errors are CheckCosts' (check_costs.h). Expects what BuildTopology has checked.
Result<CostTable> BuildCostTable(const TaskGraph& graph, const GraphCosts& costs);

}  // namespace twinstep
