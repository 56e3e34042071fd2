// A global batch into the data buffers of all ranks, and the loss out of them.
#pragma once

#include <cstdint>
#include <span>

#include "exec/runtime/backend.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// `tokens` and `labels`: one row of `sequence_length` a sample, global batch rows. Micro-batch i
// holds samples b i .. b i + b - 1, token = position * b + sample; context-parallel rank k of c
// holds the pieces k and 2 c - 1 - k of 2 c equal pieces of the sequence. An Error (kBadInput) if
// the spans are shorter than what the graph reads.
Status LoadBatch(const TaskGraph& graph, std::int64_t sequence_length,
                 std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
                 Backend* backend);

// The mean loss of the last iteration's batch: micro-batches' shares in their order, as the first
// rank of the last stage has them.
double ReadLoss(const TaskGraph& graph, const Backend& backend);

}  // namespace twinstep
