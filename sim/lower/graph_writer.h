// Appends tasks to a graph under construction, rank by rank, and derives every edge from the
// buffers that tasks read and write.
//
// Edges are those that the lanes' FIFO order and earlier edges do not already imply: a vector
// clock per lane tracks what has certainly finished, as an executor would skip redundant events.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

// Tags and placement of the next tasks.
struct TaskTags {
  TaskKind kind = TaskKind::kCompute;
  Lane lane = Lane::kCompute;
  Phase phase = Phase::kForward;
  std::uint16_t micro_batch = kNoTag, stage = kNoTag, block = kNoTag, chunk = kNoTag;
};

class GraphWriter {
 public:
  explicit GraphWriter(TaskGraph* graph) : graph_(graph) {}

  ShapeId Intern(const OpShape& shape);
  SliceId InternSlice(std::int64_t offset, std::int64_t bytes);
  // The part [offset, offset + bytes) of an operand.
  Operand SliceOf(const Operand& whole, std::int64_t offset, std::int64_t bytes);

  void BeginRank(const RankInfo& info);
  BufferId AddBuffer(std::int64_t bytes, Dtype dtype, Role role, Pool pool = Pool::kGpu,
                     bool persistent = false);
  void AddTensor(const TensorInfo& info) { graph_->tensors.push_back(info); }
  // Appends a task of the current rank; `after` lists further tasks of this rank to wait for.
  TaskId Add(ShapeId shape, const TaskTags& tags, std::span<const Operand> reads,
             std::span<const Operand> writes, std::span<const TaskId> after = {});
  // Joins the last added task to the next rendezvous of a communicator. Members of one
  // communicator meet in the order in which each issues.
  void Join(std::uint32_t communicator);
  // Communicator of ranks whose classes (indices into TaskGraph::ranks) are `classes`, equal keys
  // give the same one. `channel` tells communicators of equal members apart.
  std::uint32_t Communicator(int channel, std::vector<std::uint32_t> classes,
                             std::vector<std::uint32_t> members);
  // Freezes the edges; the writer is done.
  void Finish();

  // The last task of the current rank on a lane so far, kNone if there is none.
  TaskId last_on(Lane lane) const { return lane_tail_[static_cast<std::size_t>(lane)]; }
  TaskId last_task() const { return static_cast<TaskId>(graph_->tasks.size() - 1); }
  RankId rank() const { return rank_; }

 private:
  using Clock = std::array<std::uint32_t, 16>;  // By lane, padded to a vector register.

  // Accesses of a buffer since (and with) its last write; at most one reader a lane matters.
  struct BufferState {
    TaskId last_write = kNone;
    std::array<TaskId, kLaneCount> reader;  // kNone = no read since the write.
    std::uint16_t reader_lanes = 0;         // Bit set of the valid entries.
  };

  void Require(TaskId before);

  TaskGraph* graph_;
  RankId rank_ = 0;
  TaskId rank_first_task_ = 0;
  BufferId rank_first_buffer_ = 0;
  std::unordered_map<OpShape, ShapeId, OpShapeHash> shape_ids_;
  std::map<std::pair<std::int64_t, std::int64_t>, SliceId> slice_ids_;
  std::vector<std::pair<TaskId, TaskId>> edges_;
  std::vector<BufferState> states_;       // Of this rank's buffers.
  std::vector<Clock> clocks_;             // By task of this rank: finished before it ends.
  std::vector<std::uint32_t> positions_;  // By task of this rank, in its lane, from 1.
  std::array<TaskId, kLaneCount> lane_tail_{};
  std::array<std::uint32_t, kLaneCount> lane_length_{};
  std::vector<TaskId> pending_;  // Predecessors of the task being added.

  struct CommunicatorState {
    GroupId group = kNone;
    std::uint32_t participants = 0;
    std::vector<RendezvousId> meetings;
    std::uint32_t next = 0;  // Of the current rank.
    RankId counting_rank = kNone;
  };
  std::map<std::pair<int, std::vector<std::uint32_t>>, std::uint32_t> communicator_ids_;
  std::vector<CommunicatorState> communicators_;
};

}  // namespace twinstep
