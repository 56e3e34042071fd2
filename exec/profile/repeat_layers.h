// A graph of a few layers made to run as long as one of many: in each pass through the layers, and
// in their optimizer's steps, the tasks run several times, on the same buffers. A GPU under its
// power limit then runs as fast as in the whole model, whose memory is not needed.
//
//   const TaskGraph longer = RepeatLayers(graph, layers, {.layers = 6, .optimizer = 2});
//   PlanArena(longer);  // What a pass frees the next one still needs.
#pragma once

#include <cstdint>

#include "sim/graph/task_graph.h"

namespace twinstep {

struct Repeats {
  std::int64_t layers = 1;  // Of what belongs to a layer.
  // Of the optimizer's steps; of a layer's in each of its repetitions.
  std::int64_t optimizer = 1;
};

// `graph` is unfolded, with ids of blocks below `layers` as its layers. A pass is what follows one
// another of one micro-batch's forward, or backward, through the layers; each repetition of it
// begins after the one before has ended. The embedding's and the head's tasks run once.
TaskGraph RepeatLayers(const TaskGraph& graph, std::int64_t layers, const Repeats& repeats);

}  // namespace twinstep
