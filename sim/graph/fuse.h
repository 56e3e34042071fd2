// Fuses runs of computations that nothing outside can tell apart: consecutive tasks of a rank's
// compute lane, where no other lane waits for one before the last and none but the first waits for
// another lane. A replay then handles one task where there were dozens.
//
//   const FusedGraph fused = Fuse(graph);
//   const Result<GraphCosts> costs = FuseCosts(fused, graph_costs);   // sim/cost/fuse_costs.h
//   engine->Run(fused.graph, costs.value());
//
// Nothing is averaged: a fused task keeps its members as segments, and an engine that honours
// TaskCost's segments replays it to the picosecond as it replays the members, with interference
// too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

struct FusedGraph {
  // Ranks, groups, rendezvous and shapes as before. A fused task has shape, phase and tags of its
  // first member. No operands, buffers, slices and tensors: a fused graph is for replay only.
  TaskGraph graph;
  // Members of fused task i, in order: members[member_begin[i], member_begin[i + 1]), ids of the
  // graph that was fused.
  std::vector<std::uint32_t> member_begin;
  std::vector<TaskId> members;

  std::span<const TaskId> MembersOf(TaskId fused) const {
    return {members.data() + member_begin[fused], member_begin[fused + 1] - member_begin[fused]};
  }
};

// Expects a graph that the verifier accepts, folded or not.
FusedGraph Fuse(const TaskGraph& graph);

}  // namespace twinstep
