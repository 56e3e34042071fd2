// A hand-made training iteration for tests of the symbolic interpreter and the passes: embedding,
// two linear layers with an activation, loss, backward and Adam, under any combination of tensor
// (column, then row parallel; with or without sequence parallelism), context and data parallel with
// ZeRO 1, micro-batches (all forwards, then all backwards) and offload of the saved activations.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/task_graph.h"
#include "tests/graph/graph_builder.h"

namespace twinstep {

struct TinyPlan {
  std::uint32_t t = 1, c = 1, d = 1;
  std::uint32_t m = 1;  // Micro-batches a data-parallel rank.
  bool sequence_parallel = false;
  bool offload = false;
  bool clip = false;
};

TaskGraph MakeTinyModel(const TinyPlan& plan);

// The `nth` task of a rank that runs `op`; kNone if there is none.
TaskId FindTask(const TaskGraph& graph, RankId rank, OpCode op, int nth = 0);

}  // namespace twinstep
