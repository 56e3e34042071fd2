#include "exec/profile/probe_graph.h"

#include <map>
#include <vector>

namespace twinstep {
namespace {

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

// A buffer that holds a value all the time.
Buffer PersistentBuffer(std::int64_t bytes, Pool pool, Dtype dtype, Role role) {
  return {
      .bytes = bytes, .rank = 0, .pool = pool, .dtype = dtype, .role = role, .persistent = true};
}

}  // namespace

ProbeGraph::ProbeGraph() {
  graph_.ranks.push_back({});
  graph_.rank_class = {0};
}

BufferId ProbeGraph::AddBuffer(std::int64_t bytes, Pool pool, Dtype dtype, Role role) {
  graph_.buffers.push_back(PersistentBuffer(bytes, pool, dtype, role));
  return static_cast<BufferId>(graph_.buffers.size() - 1);
}

void ProbeGraph::AddRepeated(const Task& task, const OpShape& shape,
                             std::span<const BufferId> reads, std::span<const BufferId> writes,
                             int times) {
  graph_.shapes.push_back(shape);
  Task repeated = task;
  repeated.rank = 0;
  repeated.rendezvous = kNone;
  repeated.shape = static_cast<ShapeId>(graph_.shapes.size() - 1);
  repeated.read_count = static_cast<std::uint16_t>(reads.size());
  repeated.write_count = static_cast<std::uint16_t>(writes.size());
  for (int i = 0; i < times; ++i) {
    repeated.operand_begin = static_cast<std::uint32_t>(graph_.operands.size());
    for (const auto& operands : {reads, writes}) {
      for (const BufferId buffer : operands) graph_.operands.push_back({.buffer = buffer});
    }
    graph_.tasks.push_back(repeated);
  }
}

void ProbeGraph::AddTask(const TaskGraph& from, TaskId id, const TaskOptions& options) {
  Task task = from.tasks[id];
  if (options.on_host) {
    task.kind = TaskKind::kHost;
    task.lane = Lane::kHost;
  }
  // What is updated in place stands on both sides.
  std::map<std::pair<BufferId, SliceId>, BufferId> own;
  const auto map_operands = [&](std::span<const Operand> operands) {
    std::vector<BufferId> mapped;
    for (const Operand& x : operands) {
      const auto [at, is_new] = own.try_emplace({x.buffer, x.slice}, kNone);
      if (is_new) {
        const Buffer& buffer = from.buffers[x.buffer];
        Pool pool = buffer.pool;
        // As chunks have it: copies read and write pinned memory, states stay where they are.
        if (options.on_host && pool == Pool::kGpu) {
          pool = buffer.role == Role::kOptimizerState ? Pool::kHost : Pool::kPinnedHost;
        }
        at->second = AddBuffer(from.OperandBytes(x), pool, buffer.dtype, buffer.role);
      }
      mapped.push_back(at->second);
    }
    return mapped;
  };
  const std::vector<BufferId> reads = map_operands(from.Reads(id));
  const std::vector<BufferId> writes = map_operands(from.Writes(id));
  AddRepeated(task, from.shapes[from.tasks[id].shape], reads, writes, options.times);
}

void ProbeGraph::AddOperator(const OpShape& shape, std::span<const std::int64_t> read_bytes,
                             std::span<const std::int64_t> write_bytes, int times) {
  const auto add = [&](std::span<const std::int64_t> sizes) {
    std::vector<BufferId> buffers;
    for (const std::int64_t bytes : sizes) {
      buffers.push_back(AddBuffer(bytes, Pool::kGpu, shape.dtype, Role::kActivation));
    }
    return buffers;
  };
  const std::vector<BufferId> reads = add(read_bytes), writes = add(write_bytes);
  AddRepeated(Task{}, shape, reads, writes, times);
}

void ProbeGraph::AddCopies(bool h2d, std::int64_t bytes, int times) {
  const BufferId device = AddBuffer(bytes, Pool::kGpu, Dtype::kBf16, Role::kOffloadSlot);
  const BufferId host = AddBuffer(bytes, Pool::kPinnedHost, Dtype::kBf16, Role::kOffloadSlot);
  const BufferId reads = h2d ? host : device, writes = h2d ? device : host;
  AddRepeated(CopyTask(h2d), CopyShape(h2d, bytes), std::span(&reads, 1), std::span(&writes, 1),
              times);
}

TaskGraph ProbeGraph::Finish() && {
  graph_.rank_begin = {0, graph_.TaskCount()};
  graph_.edges = FreezeEdges(graph_.TaskCount(), {});
  return std::move(graph_);
}

TaskGraph WithCopies(const TaskGraph& graph, const BesideCopies& copies) {
  ProbeGraph probes;
  if (copies.h2d > 0) probes.AddCopies(/*h2d=*/true, copies.bytes, copies.h2d);
  if (copies.d2h > 0) probes.AddCopies(/*h2d=*/false, copies.bytes, copies.d2h);
  const TaskGraph first = std::move(probes).Finish();

  TaskGraph both = graph;
  const auto buffers = static_cast<BufferId>(graph.buffers.size());
  const auto shapes = static_cast<ShapeId>(graph.shapes.size());
  const auto operands = static_cast<std::uint32_t>(graph.operands.size());
  both.buffers.insert(both.buffers.end(), first.buffers.begin(), first.buffers.end());
  both.shapes.insert(both.shapes.end(), first.shapes.begin(), first.shapes.end());
  for (Operand x : first.operands) {
    x.buffer += buffers;
    both.operands.push_back(x);
  }
  both.tasks = first.tasks;
  for (Task& task : both.tasks) {
    task.shape += shapes;
    task.operand_begin += operands;
  }
  both.tasks.insert(both.tasks.end(), graph.tasks.begin(), graph.tasks.end());
  both.rank_begin = {0, both.TaskCount()};
  const std::uint32_t shift = first.TaskCount();
  std::vector<std::pair<TaskId, TaskId>> edges;
  edges.reserve(graph.EdgeCount());
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const TaskId next : graph.Successors(id)) edges.emplace_back(id + shift, next + shift);
  }
  both.edges = FreezeEdges(both.TaskCount(), edges);
  return both;
}

}  // namespace twinstep
