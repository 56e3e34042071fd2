// The pipeline of one rank as steps: forwards and backwards of (micro-batch, stage), and what
// happens to their activation blocks meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// A block of activations, made by one forward and used by one backward.
struct BlockId {
  std::uint16_t micro_batch = 0, stage = 0;
  auto operator<=>(const BlockId&) const = default;
};

// A run of compute tasks of one block in one direction; recomputation belongs to the backward.
struct PipelineStep {
  bool backward = false;
  BlockId block;
  TaskId first = kNone, last = kNone;
};

// In issue order. Tasks without micro-batch or stage (the optimizer) belong to no step.
std::vector<PipelineStep> StepsOfRank(const TaskGraph& graph, RankId rank);

// During a step: what is in flight, and where the living blocks (made, and not used up before the
// step) are. A copy is shown in flight from the first step in which the graph lets it run until the
// graph wants it done or lets the next one run: where it can hide, whatever the clock says. Only
// the last one of each direction, which nothing follows, ends with the step in which it did end.
struct StepState {
  std::optional<BlockId> offloading, reloading;
  int living = 0;
  int whole_on_gpu = 0;    // Not offloaded, or not completely yet.
  int reload_buffers = 0;  // Hold a block that is being reloaded or used.
  int on_host = 0;         // Offloaded, and not completely reloaded yet.
};

// One state a step. Yuan et al.'s table 10.
std::vector<StepState> StatesOfSteps(const TaskGraph& graph, const Replay& replay, RankId rank,
                                     const std::vector<PipelineStep>& steps);

}  // namespace twinstep
