// Lowers one rank: walks its pipeline schedule, stamps out block templates, and adds sends and
// receives, activation offload, and the model states' tasks around them.
#pragma once

#include "sim/lower/graph_writer.h"
#include "sim/lower/pipeline_order.h"
#include "sim/lower/rank_context.h"

namespace twinstep {

// Communicators of a pipeline neighbour, by direction.
struct PipelineChannels {
  std::uint32_t send_fwd = kNone, recv_fwd = kNone, send_bwd = kNone, recv_bwd = kNone;
};

void LowerRank(const RankContext& context, const PipelineChannels& channels,
               const PipelineOrder& order, GraphWriter* writer);

}  // namespace twinstep
