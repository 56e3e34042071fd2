// Initial weights and optimizer states, the same for every plan: each number is drawn by a counter
// over (seed, tensor, layer, global row, global column), whichever rank holds it.
//
// Weights are normal with deviation 0.02; projections back to the residual stream 0.02 / sqrt(2 L)
// (GPT-2); norms 1, biases 0. Rows that pad the vocabulary are 0. Masters are what the parameters
// are rounded from (fp32; in fp64 recipes the parameters hold fp32 numbers, too). Moments are 0.
#pragma once

#include <cstdint>

#include "exec/runtime/backend.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// The backend must have been prepared with this graph. On `threads`, 0: one a core.
void InitializeStates(const Model& model, const TaskGraph& graph, std::uint64_t seed,
                      Backend* backend, int threads = 0);

}  // namespace twinstep
