// Graphs for measuring: single operations again and again. Nothing is ordered but what a lane
// orders, and what joins ranks: one after the other. Beside another graph: merge_graphs.h.
//
//   ProbeGraph probes;
//   probes.AddTask(graph, id, {.times = 5});
//   probes.AddCopies(/*h2d=*/true, std::int64_t{64} << 20, 20);
//   const TaskGraph to_measure = std::move(probes).Finish();
//
//   ProbeGraph pair(/*ranks=*/2);
//   pair.AddGroupOperation({.op = OpCode::kAllGather, .dtype = Dtype::kBf16, .dims = {1 << 20}},
//   5);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

class ProbeGraph {
 public:
  explicit ProbeGraph(std::uint32_t ranks = 1);

  struct TaskOptions {
    std::uint32_t rank = 0;
    int times = 1;
    bool on_host = false;  // As a HOST task on host memory, whatever it was.
  };
  // The work of a task of another graph, on buffers of its own of the same sizes. Not for tasks
  // that join ranks.
  void AddTask(const TaskGraph& from, TaskId id, const TaskOptions& options);
  // Two tasks that follow each other on a lane (sim/graph/fused_pairs.h) one after the other, on
  // rank 0 and with buffers that both use. `first_is_read`: behind them a small copy reads what the
  // first has written.
  void AddPair(const TaskGraph& from, TaskId first, TaskId second, int times, bool first_is_read);
  // An operator of the compute lane of rank 0, on GPU buffers of so many bytes.
  void AddOperator(const OpShape& shape, std::span<const std::int64_t> read_bytes,
                   std::span<const std::int64_t> write_bytes, int times);
  // Far beyond the caches of GPUs and hosts. What training copies is in none of them.
  static constexpr std::int64_t kFootprintBytes = std::int64_t{512} << 20;

  // On every rank, between the GPU and pinned memory: one place after the other of
  // `footprint_bytes` on both sides, of one place if that is not more than `bytes`.
  void AddCopies(bool h2d, std::int64_t bytes, int times,
                 std::int64_t footprint_bytes = kFootprintBytes);
  // On rank `rank` alone.
  void AddCopiesOf(std::uint32_t rank, bool h2d, std::int64_t bytes, int times,
                   std::int64_t footprint_bytes = kFootprintBytes);
  // How many bytes of pinned memory that takes on a rank.
  static std::int64_t PinnedBytes(std::int64_t bytes, int times,
                                  std::int64_t footprint_bytes = kFootprintBytes);

  // What a rendezvous of another graph does, `members` in the order of its group, on ranks 0, 1,
  // ... and buffers of their own of the same sizes.
  void AddRendezvous(const TaskGraph& from, std::span<const TaskId> members, int times);
  // All ranks' kAllReduce, kAllGather, kReduceScatter or kRingShift, or a message (kSend) from rank
  // 0 to rank 1, of dims[0] bytes of the whole tensor.
  void AddGroupOperation(const OpShape& shape, int times) {
    AddGroupOperations(std::span(&shape, 1), times);
  }
  // One after the other, again and again on the same buffers.
  void AddGroupOperations(std::span<const OpShape> shapes, int times);

  TaskGraph Finish() &&;

 private:
  struct Repeated {
    Task task;
    OpShape shape;
    std::vector<Operand> reads, writes;
  };

  Operand AddBuffer(std::uint32_t rank, std::int64_t bytes, Pool pool, Dtype dtype, Role role);
  void AddRepeated(std::uint32_t rank, std::span<const Repeated> repeated, int times);
  // Of one group, by rank: one rendezvous of each operation after the other.
  void AddMeetings(std::vector<std::vector<Repeated>> operations, int times);
  std::vector<Repeated> MembersOf(const OpShape& shape);
  // Tasks of another graph with own buffers.
  std::vector<Repeated> CopiesOf(const TaskGraph& from, std::span<const TaskId> ids,
                                 std::uint32_t rank, bool on_host);

  TaskGraph graph_;
  std::vector<std::vector<Task>> tasks_;  // By rank.
  // Between tasks of a rank, by their places in tasks_.
  struct Edge {
    std::uint32_t rank = 0, from = 0, to = 0;
  };
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> last_meeting_;  // By rank: place in tasks_; kNone: none yet.
};

}  // namespace twinstep
