// Independent checks of an arena plan, by brute force: no vector clocks, no shared code with the
// arena pass. For graphs of some thousands of tasks a rank.
//
//   EXPECT_EQ(CheckArena(graph, PlanArena(graph)), "");
//   EXPECT_EQ(CheckArenaInOrder(graph, plan, RandomDispatch(graph, /*seed=*/7)), "");
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/graph/arena.h"
#include "sim/graph/task_graph.h"
#include "tests/graph/dispatch.h"

namespace twinstep {

// Empty, or what is wrong first: an offset that is negative, unaligned or past the arena's end; two
// buffers that share bytes while not every access of one is ordered before every access of the
// other by a path of the rank; a persistent buffer that shares; a live bound that is not the live
// peak in issue order, or above the arena.
std::string CheckArena(const TaskGraph& graph, const ArenaPlan& plan);

// Plays starts and ends of tasks and looks at each step whether two live buffers overlap. A buffer
// lives from the first start to the last end of its accesses. Empty, or the first clash.
std::string CheckArenaInOrder(const TaskGraph& graph, const ArenaPlan& plan,
                              std::span<const DispatchStep> steps);

// The most bytes alive at once when the graph is dispatched like this, by rank and pool. No arena
// that holds for any legal order can be smaller.
std::vector<std::array<std::int64_t, kPoolCount>> DispatchPeak(const TaskGraph& graph,
                                                               std::span<const DispatchStep> steps);

}  // namespace twinstep
