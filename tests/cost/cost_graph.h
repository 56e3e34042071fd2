// Task graphs for cost tests: tasks with shapes, ranks and rendezvous, no buffers.
//
//   CostGraph graph(8);
//   TaskId copy = graph.Copy(0, /*h2d=*/true, 1 << 20);
//   graph.Collective(OpCode::kAllReduce, {0, 1, 2, 3}, 1 << 20);
//   ComputeCosts(graph.Take(), ...);
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

class CostGraph {
 public:
  // An unfolded graph of `ranks` ranks.
  explicit CostGraph(std::uint32_t ranks);
  // A folded one: class of each global rank and its representative.
  CostGraph(std::vector<std::uint32_t> rank_class,
            const std::vector<std::uint32_t>& representatives);

  TaskId Compute(RankId rank, const OpShape& shape);
  TaskId Host(RankId rank, const OpShape& shape);
  TaskId Copy(RankId rank, bool h2d, std::int64_t bytes);
  // SEND and RECV of represented ranks; `members` are the global ranks of the group, none: no
  // group.
  std::array<TaskId, 2> Message(RankId from, RankId to, std::int64_t bytes,
                                const std::vector<std::uint32_t>& members = {});
  // One task of represented rank `rank` in a collective of global ranks.
  TaskId Collective(OpCode op, RankId rank, const std::vector<std::uint32_t>& members,
                    std::int64_t bytes);

  TaskGraph& graph() { return graph_; }

 private:
  TaskId Add(RankId rank, TaskKind kind, Lane lane, const OpShape& shape,
             RendezvousId rendezvous = kNone);
  RendezvousId Meet(const std::vector<std::uint32_t>& members, std::uint32_t participants);

  TaskGraph graph_;
};

}  // namespace twinstep
