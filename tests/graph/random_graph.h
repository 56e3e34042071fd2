// Random valid task graphs for tests: several ranks, lanes, pools and buffers, copies, SEND and
// RECV, collectives; hazards ordered by exactly the edges that they need, plus some redundant ones.
//
//   TaskGraph graph = RandomGraph({.seed = 7, .ranks = 4, .tasks = 200});   // Verify: nothing.
//
// The same options give the same graph on every machine.
#pragma once

#include <cstdint>

#include "sim/graph/task_graph.h"

namespace twinstep {

struct RandomGraphOptions {
  std::uint64_t seed = 1;
  std::uint32_t ranks = 4;
  // Of all ranks; the graph may have some more, as a collective is not cut short.
  std::uint32_t tasks = 200;
  // Of the tasks, in percent, about: 0 switches them off.
  std::uint32_t collective_percent = 15;
  std::uint32_t send_percent = 15;  // SEND with its RECV.
  std::uint32_t copy_percent = 20;  // H2D and D2H.
  std::uint32_t host_percent = 5;
  // Explicit edges between random tasks of a rank, in percent of tasks.
  std::uint32_t extra_edge_percent = 10;
  // Buffers of one rank and pool that are in use at a time; old ones are replaced by new ones.
  std::uint32_t working_set = 6;
};

// What operations read and write fits sim/graph/op.h: operand counts, bytes and dims agree, shards
// of all-gather and reduce-scatter are slices. Every rank has some persistent buffers.
TaskGraph RandomGraph(const RandomGraphOptions& options);

}  // namespace twinstep
