// A task graph as a picture, for Graphviz:
//
//   std::ofstream("step.dot") << ToDot(graph, {.ranks = {0, 1}});     // dot -Tsvg -O step.dot
//
// One cluster a rank, in which time runs to the right and each lane is a row of one colour. Edges
// by what they order, the first that fits: RAW black, WAW red, WAR orange, neighbours of a lane
// grey, all others dotted. A rendezvous is dashed: SEND to RECV, or the members of a collective to
// a hub.
#pragma once

#include <string>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

struct DotOptions {
  std::vector<RankId> ranks;  // To draw; empty: all.
};

// The graph must pass CheckStructure, but it need not be correct: a picture helps to see why.
std::string ToDot(const TaskGraph& graph, const DotOptions& options);
inline std::string ToDot(const TaskGraph& graph) { return ToDot(graph, {}); }

}  // namespace twinstep
