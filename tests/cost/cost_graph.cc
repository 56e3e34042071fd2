#include "tests/cost/cost_graph.h"

#include <algorithm>

namespace twinstep {

CostGraph::CostGraph(std::uint32_t ranks) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    graph_.ranks.push_back({.global_rank = rank});
    graph_.rank_class.push_back(rank);
  }
}

CostGraph::CostGraph(std::vector<std::uint32_t> rank_class,
                     const std::vector<std::uint32_t>& representatives) {
  for (const std::uint32_t rank : representatives) graph_.ranks.push_back({.global_rank = rank});
  for (const std::uint32_t of : rank_class) graph_.ranks[of].class_size += 1;
  for (RankInfo& rank : graph_.ranks) rank.class_size -= 1;
  graph_.rank_class = std::move(rank_class);
}

TaskId CostGraph::Add(RankId rank, TaskKind kind, Lane lane, const OpShape& shape,
                      RendezvousId rendezvous) {
  const auto at = std::find(graph_.shapes.begin(), graph_.shapes.end(), shape);
  const auto id = static_cast<ShapeId>(at - graph_.shapes.begin());
  if (at == graph_.shapes.end()) graph_.shapes.push_back(shape);
  graph_.tasks.push_back(
      {.shape = id, .rank = rank, .rendezvous = rendezvous, .kind = kind, .lane = lane});
  return static_cast<TaskId>(graph_.tasks.size() - 1);
}

RendezvousId CostGraph::Meet(const std::vector<std::uint32_t>& members,
                             std::uint32_t participants) {
  GroupId group = kNone;
  if (!members.empty()) {
    group = 0;
    while (group < graph_.groups.size() && graph_.groups[group].members != members) ++group;
    if (group == graph_.groups.size()) graph_.groups.push_back({.members = members});
  }
  graph_.rendezvous.push_back({.group = group, .participants = participants});
  return static_cast<RendezvousId>(graph_.rendezvous.size() - 1);
}

TaskId CostGraph::Compute(RankId rank, const OpShape& shape) {
  return Add(rank, TaskKind::kCompute, Lane::kCompute, shape);
}

TaskId CostGraph::Host(RankId rank, const OpShape& shape) {
  return Add(rank, TaskKind::kHost, Lane::kHost, shape);
}

TaskId CostGraph::Copy(RankId rank, bool h2d, std::int64_t bytes) {
  return Add(rank, h2d ? TaskKind::kH2D : TaskKind::kD2H, h2d ? Lane::kH2D : Lane::kD2H,
             {.op = h2d ? OpCode::kCopyH2D : OpCode::kCopyD2H, .dims = {bytes}});
}

std::array<TaskId, 2> CostGraph::Message(RankId from, RankId to, std::int64_t bytes,
                                         const std::vector<std::uint32_t>& members) {
  const RendezvousId rendezvous = Meet(members, 2);
  const TaskId send = Add(from, TaskKind::kSend, Lane::kSendFwd,
                          {.op = OpCode::kSend, .dims = {bytes}}, rendezvous);
  const TaskId recv =
      Add(to, TaskKind::kRecv, Lane::kRecvFwd, {.op = OpCode::kRecv, .dims = {bytes}}, rendezvous);
  return {send, recv};
}

TaskId CostGraph::Collective(OpCode op, RankId rank, const std::vector<std::uint32_t>& members,
                             std::int64_t bytes) {
  return Add(rank, TaskKind::kCollective, Lane::kTp, {.op = op, .dims = {bytes}},
             Meet(members, static_cast<std::uint32_t>(members.size())));
}

}  // namespace twinstep
