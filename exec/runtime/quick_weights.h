// Weights for measuring: of the size that a training begins with, but not drawn one by one, which
// takes longer than a measurement where there are billions.
//
//   WriteQuickWeights(graph, &backend);  // In place of InitializeStates.
#pragma once

#include "exec/runtime/backend.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// Parameters and masters: the same four million normal numbers of deviation 0.02 again and again,
// from another one on in each tensor; norms' weights 1. No two rows of a matrix are alike, nor two
// layers or heads: products of numbers that repeat take less power, which is speed at a GPU's power
// limit. Moments stay as they are. The backend must have been prepared with this graph.
void WriteQuickWeights(const TaskGraph& graph, Backend* backend);
// Such numbers into every buffer of the graph but those of whole numbers, from another one on in
// each: to measure single operations on.
void FillBuffers(const TaskGraph& graph, Backend* backend);

}  // namespace twinstep
