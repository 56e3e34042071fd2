#include "exec/profile/probe_graph.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace twinstep {
namespace {

// So few that their copying takes no time beside other operators.
constexpr std::int64_t kFewBytes = 4096;

Task CopyTask(bool h2d) {
  Task task;
  task.kind = h2d ? TaskKind::kH2D : TaskKind::kD2H;
  task.lane = h2d ? Lane::kH2D : Lane::kD2H;
  return task;
}

OpShape CopyShape(bool h2d, std::int64_t bytes) {
  OpShape shape{.op = h2d ? OpCode::kCopyH2D : OpCode::kCopyD2H, .dtype = Dtype::kUint8};
  shape.dims[0] = bytes;
  return shape;
}

// One on which training has nothing else of this kind.
Lane GroupLane(TaskKind kind) {
  switch (kind) {
    case TaskKind::kSend:
      return Lane::kSendFwd;
    case TaskKind::kRecv:
      return Lane::kRecvFwd;
    default:
      return Lane::kRecvBwd;
  }
}

Task GroupTask(OpCode op, std::uint32_t rank) {
  Task task;
  task.kind = op != OpCode::kSend ? TaskKind::kCollective
              : rank == 0         ? TaskKind::kSend
                                  : TaskKind::kRecv;
  task.lane = GroupLane(task.kind);
  return task;
}

// So many places are copied in turn.
int Places(std::int64_t bytes, int times, std::int64_t footprint_bytes) {
  const std::int64_t all = bytes > 0 ? (footprint_bytes + bytes - 1) / bytes : 1;
  return static_cast<int>(std::clamp<std::int64_t>(all, 1, std::max(1, times)));
}

}  // namespace

ProbeGraph::ProbeGraph(std::uint32_t ranks) : tasks_(ranks), last_meeting_(ranks, kNone) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    graph_.ranks.push_back({.global_rank = rank});
    graph_.rank_class.push_back(rank);
  }
}

// One that holds a value all the time.
Operand ProbeGraph::AddBuffer(std::uint32_t rank, std::int64_t bytes, Pool pool, Dtype dtype,
                              Role role) {
  graph_.buffers.push_back({.bytes = bytes,
                            .rank = rank,
                            .pool = pool,
                            .dtype = dtype,
                            .role = role,
                            .persistent = true});
  return {.buffer = static_cast<BufferId>(graph_.buffers.size() - 1)};
}

void ProbeGraph::AddRepeated(std::uint32_t rank, std::span<const Repeated> repeated, int times) {
  const std::size_t first_shape = graph_.shapes.size();
  for (const Repeated& one : repeated) graph_.shapes.push_back(one.shape);
  for (int i = 0; i < times; ++i) {
    for (std::size_t k = 0; k < repeated.size(); ++k) {
      Task task = repeated[k].task;
      task.rank = rank;
      task.shape = static_cast<ShapeId>(first_shape + k);
      task.read_count = static_cast<std::uint16_t>(repeated[k].reads.size());
      task.write_count = static_cast<std::uint16_t>(repeated[k].writes.size());
      task.operand_begin = static_cast<std::uint32_t>(graph_.operands.size());
      for (const auto* operands : {&repeated[k].reads, &repeated[k].writes}) {
        graph_.operands.insert(graph_.operands.end(), operands->begin(), operands->end());
      }
      tasks_[rank].push_back(task);
    }
  }
}

std::vector<ProbeGraph::Repeated> ProbeGraph::CopiesOf(const TaskGraph& from,
                                                       std::span<const TaskId> ids,
                                                       std::uint32_t rank, bool on_host) {
  // What is updated in place stands on both sides; a shard may lie at its place in the whole.
  std::map<BufferId, std::set<SliceId>> slices;
  for (const TaskId id : ids) {
    for (const auto& operands : {from.Reads(id), from.Writes(id)}) {
      for (const Operand& x : operands) slices[x.buffer].insert(x.slice);
    }
  }
  std::map<BufferId, BufferId> own;
  std::map<SliceId, SliceId> own_slices;
  const auto map_operands = [&](std::span<const Operand> operands) {
    std::vector<Operand> mapped;
    for (const Operand& x : operands) {
      const bool is_whole = slices[x.buffer].size() > 1;
      const auto [at, is_new] = own.try_emplace(x.buffer, kNone);
      if (is_new) {
        const Buffer& buffer = from.buffers[x.buffer];
        Pool pool = buffer.pool;
        // As chunks have it: copies read and write pinned memory, states stay where they are.
        if (on_host && pool == Pool::kGpu) {
          pool = buffer.role == Role::kOptimizerState ? Pool::kHost : Pool::kPinnedHost;
        }
        at->second = AddBuffer(rank, is_whole ? buffer.bytes : from.OperandBytes(x), pool,
                               buffer.dtype, buffer.role)
                         .buffer;
      }
      Operand operand{.buffer = at->second};
      if (is_whole && x.slice != 0) {
        const auto [slice, is_new_slice] =
            own_slices.try_emplace(x.slice, static_cast<SliceId>(graph_.slices.size()));
        if (is_new_slice) graph_.slices.push_back(from.slices[x.slice]);
        operand.slice = slice->second;
      }
      mapped.push_back(operand);
    }
    return mapped;
  };
  std::vector<Repeated> copies;
  for (const TaskId id : ids) {
    Repeated copy{.task = from.tasks[id],
                  .shape = from.shapes[from.tasks[id].shape],
                  .reads = map_operands(from.Reads(id)),
                  .writes = map_operands(from.Writes(id))};
    copy.task.rendezvous = kNone;
    copies.push_back(std::move(copy));
  }
  return copies;
}

void ProbeGraph::AddTask(const TaskGraph& from, TaskId id, const TaskOptions& options) {
  std::vector<Repeated> repeated = CopiesOf(from, std::span(&id, 1), options.rank, options.on_host);
  if (options.on_host) {
    repeated.front().task.kind = TaskKind::kHost;
    repeated.front().task.lane = Lane::kHost;
  }
  AddRepeated(options.rank, repeated, options.times);
}

void ProbeGraph::AddPair(const TaskGraph& from, TaskId first, TaskId second, int times,
                         bool first_is_read) {
  std::vector<Repeated> repeated =
      CopiesOf(from, std::array{first, second}, /*rank=*/0, /*on_host=*/false);
  if (first_is_read) {
    const Operand read = repeated.front().writes.front();
    Repeated reader{.task = {},
                    .shape = {.op = OpCode::kCopyOnDevice, .dtype = Dtype::kUint8},
                    .reads = {read},
                    .writes = {}};
    reader.shape.dims[0] = std::min(graph_.OperandBytes(read), kFewBytes);
    reader.writes.push_back(
        AddBuffer(0, reader.shape.dims[0], Pool::kGpu, Dtype::kUint8, Role::kTransient));
    repeated.push_back(std::move(reader));
  }
  AddRepeated(0, repeated, times);
}

void ProbeGraph::AddOperator(const OpShape& shape, std::span<const std::int64_t> read_bytes,
                             std::span<const std::int64_t> write_bytes, int times) {
  Repeated repeated{.task = {}, .shape = shape, .reads = {}, .writes = {}};
  for (const std::int64_t bytes : read_bytes) {
    repeated.reads.push_back(AddBuffer(0, bytes, Pool::kGpu, shape.dtype, Role::kActivation));
  }
  for (const std::int64_t bytes : write_bytes) {
    repeated.writes.push_back(AddBuffer(0, bytes, Pool::kGpu, shape.dtype, Role::kActivation));
  }
  AddRepeated(0, std::span(&repeated, 1), times);
}

void ProbeGraph::AddCopies(bool h2d, std::int64_t bytes, int times, std::int64_t footprint_bytes) {
  for (std::uint32_t rank = 0; rank < tasks_.size(); ++rank) {
    AddCopiesOf(rank, h2d, bytes, times, footprint_bytes);
  }
}

void ProbeGraph::AddCopiesOf(std::uint32_t rank, bool h2d, std::int64_t bytes, int times,
                             std::int64_t footprint_bytes) {
  const auto add = [&](Pool pool) {
    return AddBuffer(rank, bytes, pool, Dtype::kBf16, Role::kOffloadSlot);
  };
  std::vector<Repeated> copies;
  for (int i = 0; i < Places(bytes, times, footprint_bytes); ++i) {
    const Operand device = add(Pool::kGpu), host = add(Pool::kPinnedHost);
    copies.push_back({.task = CopyTask(h2d),
                      .shape = CopyShape(h2d, bytes),
                      .reads = {h2d ? host : device},
                      .writes = {h2d ? device : host}});
  }
  const auto places = static_cast<int>(copies.size());
  AddRepeated(rank, copies, times / places);
  AddRepeated(rank, std::span(copies).first(static_cast<std::size_t>(times % places)), 1);
}

std::int64_t ProbeGraph::PinnedBytes(std::int64_t bytes, int times, std::int64_t footprint_bytes) {
  return bytes * Places(bytes, times, footprint_bytes);
}

void ProbeGraph::AddMeetings(std::vector<std::vector<Repeated>> operations, int times) {
  Group group;
  const std::size_t count = operations.front().size();
  for (std::uint32_t rank = 0; rank < count; ++rank) group.members.push_back(rank);
  graph_.groups.push_back(std::move(group));
  const auto group_id = static_cast<GroupId>(graph_.groups.size() - 1);
  for (int i = 0; i < times; ++i) {
    for (std::vector<Repeated>& members : operations) {
      const auto rendezvous = static_cast<RendezvousId>(graph_.rendezvous.size());
      graph_.rendezvous.push_back(
          {.group = group_id, .participants = static_cast<std::uint32_t>(count)});
      for (std::uint32_t rank = 0; rank < count; ++rank) {
        members[rank].task.rendezvous = rendezvous;
        if (last_meeting_[rank] != kNone) {
          edges_.push_back({.rank = rank,
                            .from = last_meeting_[rank],
                            .to = static_cast<std::uint32_t>(tasks_[rank].size())});
        }
        last_meeting_[rank] = static_cast<std::uint32_t>(tasks_[rank].size());
        AddRepeated(rank, std::span(&members[rank], 1), 1);
      }
    }
  }
}

void ProbeGraph::AddRendezvous(const TaskGraph& from, std::span<const TaskId> members, int times) {
  std::vector<Repeated> copies;
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    copies.push_back(CopiesOf(from, members.subspan(rank, 1), rank, /*on_host=*/false).front());
    copies.back().task.lane = GroupLane(copies.back().task.kind);
  }
  AddMeetings({std::move(copies)}, times);
}

void ProbeGraph::AddGroupOperations(std::span<const OpShape> shapes, int times) {
  std::vector<std::vector<Repeated>> operations;
  for (const OpShape& shape : shapes) operations.push_back(MembersOf(shape));
  AddMeetings(std::move(operations), times);
}

std::vector<ProbeGraph::Repeated> ProbeGraph::MembersOf(const OpShape& shape) {
  const bool is_message = shape.op == OpCode::kSend;
  const std::size_t count = is_message ? 2 : tasks_.size();
  const std::int64_t whole = shape.dims[0], shard = whole / static_cast<std::int64_t>(count);
  std::vector<Repeated> members;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    Repeated member{.task = GroupTask(shape.op, rank), .shape = shape, .reads = {}, .writes = {}};
    if (is_message && rank == 1) member.shape.op = OpCode::kRecv;
    const auto add = [&](std::int64_t bytes) {
      return AddBuffer(rank, bytes, Pool::kGpu, shape.dtype, Role::kActivation);
    };
    if (!is_message || rank == 0) {
      member.reads.push_back(add(shape.op == OpCode::kAllGather ? shard : whole));
    }
    if (!is_message || rank == 1) {
      member.writes.push_back(add(shape.op == OpCode::kReduceScatter ? shard : whole));
    }
    members.push_back(std::move(member));
  }
  return members;
}

TaskGraph ProbeGraph::Finish() && {
  graph_.rank_begin = {0};
  for (const std::vector<Task>& tasks : tasks_) {
    graph_.tasks.insert(graph_.tasks.end(), tasks.begin(), tasks.end());
    graph_.rank_begin.push_back(graph_.TaskCount());
  }
  std::vector<std::pair<TaskId, TaskId>> edges;
  for (const auto& [rank, from, to] : edges_) {
    // A lane has an order anyway.
    if (tasks_[rank][from].lane == tasks_[rank][to].lane) continue;
    edges.emplace_back(graph_.rank_begin[rank] + from, graph_.rank_begin[rank] + to);
  }
  graph_.edges = FreezeEdges(graph_.TaskCount(), edges);
  return std::move(graph_);
}

}  // namespace twinstep
