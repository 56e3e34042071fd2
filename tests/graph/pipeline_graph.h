// Synthetic graphs with the buffer lifetimes of pipeline-parallel training: saved tensors of few
// distinct sizes that live from a forward to its backward, short-lived temporaries, sends,
// receives and offload copies whose end the compute lane learns of only units later.
// Realistic inside each rank only: sends and receives are issued where they come up, and taken
// together the ranks' orders may contradict.
//
//   TaskGraph graph = MakePipelineGraph({.ranks = 4, .micro_batches = 8, .virtual_stages = 2});
#pragma once

#include <cstdint>

#include "sim/graph/task_graph.h"

namespace twinstep {

struct PipelineGraphOptions {
  int ranks = 4;
  int micro_batches = 8;
  int virtual_stages = 1;  // > 1: interleaved 1F1B; micro_batches must be a multiple of ranks.
  int layers_per_stage = 4;
  std::int64_t tensor_bytes = std::int64_t{64} << 20;  // tokens x hidden x element size.
  int extra_temporaries = 4;  // A layer, besides those that the layer's own operators make.
  bool offload = false;       // Copy part of each forward's saved tensors to the host and back.
  std::uint64_t seed = 0;     // 0: the sizes of a gated transformer layer, else random ones.
};

TaskGraph MakePipelineGraph(const PipelineGraphOptions& options);

}  // namespace twinstep
