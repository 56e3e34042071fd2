// Every plan of the chunk space (ProTrain) with its closed form and bound: how many
// chunks persist, how many blocks are swapped and how many checkpointed; as many buffers as the
// paper's memory model (equations 8-11) says that fit, host memory for what does not persist. One
// stage, data parallelism, one micro-batch.
//
//   const ChunkSpace chunks = FindChunkSpace(input, axes, /*gpus=*/4).value();
//   search.Run(chunks.space.plans, chunks.estimates, nullptr);
//
// Chunks, operators and rates are measured once on a plan that keeps every block and on one that
// checkpoints every block; what differs between plans is arithmetic on running sums.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/result.h"
#include "sim/search/plan_estimates.h"
#include "sim/search/plan_space.h"
#include "sim/simulate/simulate_input.h"

namespace twinstep {

// Empty: every count up to 128, of larger models some 64 evenly apart; swapped blocks: 0 and powers
// of two, up to as many as whose copies the forward can hide.
struct ChunkAxes {
  std::vector<std::int64_t> persistent, swapped, checkpointed, global_batch;
  // Of each number of swapped blocks only the plan that needs least memory, which fits if any does:
  // every other block checkpointed, the least buffers, as few persistent chunks as the host admits.
  bool least_memory = false;
};

struct ChunkSpace {
  PlanSpace space;
  std::vector<PlanEstimate> estimates;  // By plan.
  std::int64_t chunks = 0;              // That the model states lie in.
};

// Error: as Lower and ComputeCosts, for a plan that no count can save. With a model that fits in no
// way every estimate says so.
Result<ChunkSpace> FindChunkSpace(const SimulateInput& input, const ChunkAxes& axes,
                                  std::int64_t gpus);

}  // namespace twinstep
