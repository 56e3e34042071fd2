// A small world that looks like training, for tests and benchmarks of the engines: a 1F1B pipeline
// of tensor-parallel groups on GPUs that share uplinks and host memory, with offloaded activations
// and a data-parallel gradient sum at the end.
#pragma once

#include <cstdint>

#include "sim/cost/graph_costs.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

struct TrainingGraphOptions {
  std::uint32_t tensor = 1, data = 1, pipeline = 1;
  std::uint32_t micro_batches = 1;
  std::uint32_t blocks = 1;    // A stage.
  std::uint32_t computes = 1;  // A block and direction; a collective follows if tensor > 1.
  bool offload = false;        // Each stage's activations of a micro-batch go out and back.
  // Two GPUs share a PCIe uplink, eight a host memory, the messages of both directions a NIC.
  bool shared_links = false;
  bool interference = false;
  Picoseconds forward_ps = 1'000'000, backward_ps = 2'000'000;  // A compute task.
  Picoseconds latency_ps = 0;                                   // Of every movement.
  std::int64_t message_bytes = 0;                               // Between stages.
  std::int64_t collective_bytes = 0;
  std::int64_t offload_bytes = 0;
};

struct TrainingGraph {
  TaskGraph graph;
  GraphCosts costs;
};

// Ranks are numbered tensor first, then data, then pipeline. Tasks have buffers only as far as
// edges need them: none. The edges are the data edges of the schedule, and lane order.
TrainingGraph MakeTrainingGraph(const TrainingGraphOptions& options);

}  // namespace twinstep
