// Hand-made task graphs for tests, with the edges derived from what the tasks read and write.
//
//   GraphBuilder builder(2);                                 // Two ranks.
//   BufferId x = builder.AddBuffer(0, 4096, {.persistent = true});
//   BufferId y = builder.AddBuffer(1, 4096);
//   builder.SendRecv(x, y);
//   GraphBuilder::Handle work = builder.Compute(1, {y}, {y});
//   TaskGraph graph = builder.Build();                       // Verify(graph) finds nothing.
//   TaskId id = builder.Id(work);
//
// The order of the calls is the issue order of each rank and a global order of all rendezvous, so
// the graph is valid as long as buffers are written before they are read.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

// Edges of the hazards of a graph, whatever edges it has: RAW from the last writer, WAR from each
// reader since the last write, WAW from the last writer. May hold duplicates.
std::vector<std::pair<TaskId, TaskId>> HazardEdges(const TaskGraph& graph);

// Edges between consecutive tasks of each lane.
std::vector<std::pair<TaskId, TaskId>> LaneEdges(const TaskGraph& graph);

class GraphBuilder {
 public:
  // A task before Build: the how-manyth that was added, of all ranks.
  using Handle = std::uint32_t;

  struct BufferSpec {
    Pool pool = Pool::kGpu;
    Role role = Role::kTransient;
    Dtype dtype = Dtype::kBf16;
    bool persistent = false;
  };

  struct TaskSpec {
    RankId rank = 0;
    TaskKind kind = TaskKind::kCompute;
    Lane lane = Lane::kCompute;
    OpShape shape{};
    std::vector<Operand> reads{}, writes{};
    RendezvousId rendezvous = kNone;
    Phase phase = Phase::kForward;
    std::uint16_t micro_batch = kNoTag, stage = kNoTag, block = kNoTag, chunk = kNoTag;
  };

  struct EdgeSpec {
    bool hazards = true;
    bool lanes = true;
  };

  // `ranks` unfolded ranks, data-parallel to each other.
  explicit GraphBuilder(std::uint32_t ranks);

  BufferId AddBuffer(RankId rank, std::int64_t bytes, const BufferSpec& spec);
  BufferId AddBuffer(RankId rank, std::int64_t bytes) { return AddBuffer(rank, bytes, {}); }
  // Part of a buffer as an operand.
  Operand Part(BufferId buffer, std::int64_t offset, std::int64_t bytes);
  ShapeId AddShape(const OpShape& shape);
  GroupId AddGroup(const std::vector<std::uint32_t>& members);
  RendezvousId AddRendezvous(GroupId group, std::uint32_t participants);

  Handle Add(const TaskSpec& spec);
  // A task that does something to whole buffers (an addition, as far as its shape tells).
  Handle Compute(RankId rank, const std::vector<BufferId>& reads,
                 const std::vector<BufferId>& writes, Lane lane = Lane::kCompute);
  // Copies of whole buffers on the rank that owns them.
  Handle CopyH2D(BufferId source, BufferId destination);
  Handle CopyD2H(BufferId source, BufferId destination);
  // A SEND on the rank of `source` and its RECV on the rank of `destination`.
  std::pair<Handle, Handle> SendRecv(BufferId source, BufferId destination,
                                     Lane send = Lane::kSendFwd, Lane recv = Lane::kRecvFwd);
  // One task a rank; input i and output i lie on the same rank, and their order is the group's.
  // `bytes`: of the full tensor.
  std::vector<Handle> Collective(OpCode op, const std::vector<Operand>& inputs,
                                 const std::vector<Operand>& outputs, std::int64_t bytes,
                                 Lane lane = Lane::kTp);
  // Sums whole buffers of several ranks, in place.
  std::vector<Handle> AllReduce(const std::vector<BufferId>& buffers, Lane lane = Lane::kTp);

  // An explicit edge between tasks of one rank.
  void Order(Handle before, Handle after);

  // May be called once.
  TaskGraph Build(const EdgeSpec& edges);
  TaskGraph Build() { return Build({}); }
  // Id in the built graph.
  TaskId Id(Handle handle) const { return ids_[handle]; }

  std::uint32_t TaskCount() const { return static_cast<std::uint32_t>(added_.size()); }

 private:
  TaskGraph graph_;          // Without tasks, rank_begin and edges.
  std::vector<Task> added_;  // By handle.
  std::vector<std::pair<Handle, Handle>> explicit_edges_;
  std::vector<TaskId> ids_;  // By handle.
  std::unordered_map<OpShape, ShapeId, OpShapeHash> shape_ids_;
};

}  // namespace twinstep
