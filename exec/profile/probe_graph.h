// Graphs of one rank for measuring: single operations again and again, and copies beside a graph.
// Nothing is ordered but what a lane orders.
//
//   ProbeGraph probes;
//   probes.AddTask(graph, id, {.times = 5});
//   probes.AddCopies(/*h2d=*/true, std::int64_t{64} << 20, 20);
//   const TaskGraph to_measure = std::move(probes).Finish();
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "sim/graph/task_graph.h"

namespace twinstep {

class ProbeGraph {
 public:
  ProbeGraph();

  struct TaskOptions {
    int times = 1;
    bool on_host = false;  // As a HOST task on host memory, whatever it was.
  };
  // The work of a task of another graph, on buffers of its own of the same sizes. Not for tasks
  // that join ranks.
  void AddTask(const TaskGraph& from, TaskId id, const TaskOptions& options);
  // An operator of the compute lane, on GPU buffers of so many bytes.
  void AddOperator(const OpShape& shape, std::span<const std::int64_t> read_bytes,
                   std::span<const std::int64_t> write_bytes, int times);
  // Between one buffer on the GPU and one in pinned memory.
  void AddCopies(bool h2d, std::int64_t bytes, int times);

  TaskGraph Finish() &&;

 private:
  BufferId AddBuffer(std::int64_t bytes, Pool pool, Dtype dtype, Role role);
  void AddRepeated(const Task& task, const OpShape& shape, std::span<const BufferId> reads,
                   std::span<const BufferId> writes, int times);

  TaskGraph graph_;
};

struct BesideCopies {
  std::int64_t bytes = 0;  // Of each.
  int h2d = 0, d2h = 0;    // How many.
};
// `graph`, of one rank, with copies on the lanes of copies, issued before all else: they run from
// the begin on. Their ids come first, H2D before D2H; those of the graph follow.
TaskGraph WithCopies(const TaskGraph& graph, const BesideCopies& copies);

}  // namespace twinstep
