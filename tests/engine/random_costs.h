// Random costs for any graph: a small cluster of PCIe links, uplinks, host memories, NVLink and NIC
// ports, with durations and bytes of the same order, so that much happens at once.
#pragma once

#include <cstdint>

#include "sim/cost/graph_costs.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

struct RandomCostOptions {
  std::uint64_t seed = 1;
  bool sharing = false;         // Else every lane has its own links.
  bool multiplicities = false;  // Of 1, 2, 4 and 0.5; needs sharing to matter.
  bool interference = false;
  bool clocks = false;       // Computation is faster after a rest.
  bool turns = false;        // Some movements between ranks need multiprocessors.
  bool host_copies = false;  // Copies of four ranks each limit each other.
  bool delays = false;       // Between lanes, and where ranks meet.
  // Multiplies every link's and every cap's bandwidth, and divides every duration of compute and
  // host tasks. The random numbers do not depend on them.
  double link_speed = 1, device_speed = 1;
};

GraphCosts RandomCosts(const TaskGraph& graph, const RandomCostOptions& options);

}  // namespace twinstep
