#include "tests/graph/graph_builder.h"

#include <array>

namespace twinstep {

std::vector<std::pair<TaskId, TaskId>> HazardEdges(const TaskGraph& graph) {
  std::vector<std::pair<TaskId, TaskId>> edges;
  std::vector<TaskId> writer(graph.buffers.size(), kNone);
  std::vector<std::vector<TaskId>> readers(graph.buffers.size());
  const auto add = [&edges](TaskId before, TaskId after) {
    if (before != kNone && before != after) edges.emplace_back(before, after);
  };
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const Operand& x : graph.Reads(id)) {
      add(writer[x.buffer], id);
      readers[x.buffer].push_back(id);
    }
    for (const Operand& x : graph.Writes(id)) {
      add(writer[x.buffer], id);
      for (const TaskId reader : readers[x.buffer]) add(reader, id);
      writer[x.buffer] = id;
      readers[x.buffer].clear();
    }
  }
  return edges;
}

std::vector<std::pair<TaskId, TaskId>> LaneEdges(const TaskGraph& graph) {
  std::vector<std::pair<TaskId, TaskId>> edges;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    std::array<TaskId, kLaneCount> last;
    last.fill(kNone);
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      TaskId& before = last[static_cast<std::size_t>(graph.tasks[id].lane)];
      if (before != kNone) edges.emplace_back(before, id);
      before = id;
    }
  }
  return edges;
}

GraphBuilder::GraphBuilder(std::uint32_t ranks) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankInfo info;
    info.global_rank = rank;
    info.dp = static_cast<std::uint16_t>(rank);
    graph_.ranks.push_back(info);
    graph_.rank_class.push_back(rank);
  }
}

BufferId GraphBuilder::AddBuffer(RankId rank, std::int64_t bytes, const BufferSpec& spec) {
  graph_.buffers.push_back({.bytes = bytes,
                            .rank = rank,
                            .pool = spec.pool,
                            .dtype = spec.dtype,
                            .role = spec.role,
                            .persistent = spec.persistent});
  return static_cast<BufferId>(graph_.buffers.size() - 1);
}

Operand GraphBuilder::Part(BufferId buffer, std::int64_t offset, std::int64_t bytes) {
  graph_.slices.push_back({.offset = offset, .bytes = bytes});
  return {.buffer = buffer, .slice = static_cast<SliceId>(graph_.slices.size() - 1)};
}

ShapeId GraphBuilder::AddShape(const OpShape& shape) {
  const auto [it, is_new] =
      shape_ids_.try_emplace(shape, static_cast<ShapeId>(graph_.shapes.size()));
  if (is_new) graph_.shapes.push_back(shape);
  return it->second;
}

GroupId GraphBuilder::AddGroup(const std::vector<std::uint32_t>& members) {
  for (GroupId id = 0; id < graph_.groups.size(); ++id) {
    if (graph_.groups[id].members == members) return id;
  }
  graph_.groups.push_back({.members = members});
  return static_cast<GroupId>(graph_.groups.size() - 1);
}

RendezvousId GraphBuilder::AddRendezvous(GroupId group, std::uint32_t participants) {
  graph_.rendezvous.push_back({.group = group, .participants = participants});
  return static_cast<RendezvousId>(graph_.rendezvous.size() - 1);
}

GraphBuilder::Handle GraphBuilder::Add(const TaskSpec& spec) {
  Task task;
  task.shape = AddShape(spec.shape);
  task.rank = spec.rank;
  task.operand_begin = static_cast<std::uint32_t>(graph_.operands.size());
  task.read_count = static_cast<std::uint16_t>(spec.reads.size());
  task.write_count = static_cast<std::uint16_t>(spec.writes.size());
  task.rendezvous = spec.rendezvous;
  task.kind = spec.kind;
  task.lane = spec.lane;
  task.phase = spec.phase;
  task.micro_batch = spec.micro_batch;
  task.stage = spec.stage;
  task.block = spec.block;
  task.chunk = spec.chunk;
  graph_.operands.insert(graph_.operands.end(), spec.reads.begin(), spec.reads.end());
  graph_.operands.insert(graph_.operands.end(), spec.writes.begin(), spec.writes.end());
  added_.push_back(task);
  return TaskCount() - 1;
}

GraphBuilder::Handle GraphBuilder::Compute(RankId rank, const std::vector<BufferId>& reads,
                                           const std::vector<BufferId>& writes, Lane lane) {
  TaskSpec spec;
  spec.rank = rank;
  spec.lane = lane;
  spec.shape = {.op = OpCode::kAdd, .dims = {1, 1}};
  for (const BufferId buffer : reads) spec.reads.push_back({.buffer = buffer});
  for (const BufferId buffer : writes) spec.writes.push_back({.buffer = buffer});
  return Add(spec);
}

GraphBuilder::Handle GraphBuilder::CopyH2D(BufferId source, BufferId destination) {
  TaskSpec spec;
  spec.rank = graph_.buffers[source].rank;
  spec.kind = TaskKind::kH2D;
  spec.lane = Lane::kH2D;
  spec.shape = {.op = OpCode::kCopyH2D, .dims = {graph_.buffers[source].bytes}};
  spec.reads = {{.buffer = source}};
  spec.writes = {{.buffer = destination}};
  return Add(spec);
}

GraphBuilder::Handle GraphBuilder::CopyD2H(BufferId source, BufferId destination) {
  TaskSpec spec;
  spec.rank = graph_.buffers[source].rank;
  spec.kind = TaskKind::kD2H;
  spec.lane = Lane::kD2H;
  spec.shape = {.op = OpCode::kCopyD2H, .dims = {graph_.buffers[source].bytes}};
  spec.reads = {{.buffer = source}};
  spec.writes = {{.buffer = destination}};
  return Add(spec);
}

std::pair<GraphBuilder::Handle, GraphBuilder::Handle> GraphBuilder::SendRecv(BufferId source,
                                                                             BufferId destination,
                                                                             Lane send, Lane recv) {
  const RankId from = graph_.buffers[source].rank;
  const RankId to = graph_.buffers[destination].rank;
  TaskSpec spec;
  spec.rendezvous = AddRendezvous(AddGroup({from, to}), 2);
  spec.rank = from;
  spec.kind = TaskKind::kSend;
  spec.lane = send;
  spec.shape = {.op = OpCode::kSend, .dims = {graph_.buffers[source].bytes}};
  spec.reads = {{.buffer = source}};
  const Handle sending = Add(spec);
  spec.rank = to;
  spec.kind = TaskKind::kRecv;
  spec.lane = recv;
  spec.shape.op = OpCode::kRecv;
  spec.reads.clear();
  spec.writes = {{.buffer = destination}};
  return {sending, Add(spec)};
}

std::vector<GraphBuilder::Handle> GraphBuilder::Collective(OpCode op,
                                                           const std::vector<Operand>& inputs,
                                                           const std::vector<Operand>& outputs,
                                                           std::int64_t bytes, Lane lane) {
  std::vector<std::uint32_t> members;
  for (const Operand& x : inputs) members.push_back(graph_.buffers[x.buffer].rank);
  TaskSpec spec;
  spec.rendezvous = AddRendezvous(AddGroup(members), static_cast<std::uint32_t>(members.size()));
  spec.kind = TaskKind::kCollective;
  spec.lane = lane;
  spec.shape = {.op = op, .dims = {bytes}};
  std::vector<Handle> handles;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    spec.rank = members[i];
    spec.reads = {inputs[i]};
    spec.writes = {outputs[i]};
    handles.push_back(Add(spec));
  }
  return handles;
}

std::vector<GraphBuilder::Handle> GraphBuilder::AllReduce(const std::vector<BufferId>& buffers,
                                                          Lane lane) {
  std::vector<Operand> operands;
  for (const BufferId buffer : buffers) operands.push_back({.buffer = buffer});
  return Collective(OpCode::kAllReduce, operands, operands, graph_.buffers[buffers.front()].bytes,
                    lane);
}

void GraphBuilder::Order(Handle before, Handle after) {
  explicit_edges_.emplace_back(before, after);
}

TaskGraph GraphBuilder::Build(const EdgeSpec& edges) {
  // Rank by rank, each in the order of addition.
  std::vector<std::uint32_t> place(graph_.ranks.size() + 1, 0);
  for (const Task& task : added_) ++place[task.rank + 1];
  for (std::size_t rank = 0; rank < graph_.ranks.size(); ++rank) place[rank + 1] += place[rank];
  graph_.rank_begin = place;
  graph_.tasks.resize(added_.size());
  ids_.resize(added_.size());
  for (Handle handle = 0; handle < TaskCount(); ++handle) {
    ids_[handle] = place[added_[handle].rank]++;
    graph_.tasks[ids_[handle]] = added_[handle];
  }
  std::vector<std::pair<TaskId, TaskId>> list;
  if (edges.hazards) list = HazardEdges(graph_);
  if (edges.lanes) {
    const auto lane_edges = LaneEdges(graph_);
    list.insert(list.end(), lane_edges.begin(), lane_edges.end());
  }
  for (const auto& [before, after] : explicit_edges_) list.emplace_back(Id(before), Id(after));
  graph_.edges = FreezeEdges(graph_.TaskCount(), list);
  return std::move(graph_);
}

}  // namespace twinstep
