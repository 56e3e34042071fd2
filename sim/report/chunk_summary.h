// Rows of chunks and blocks from a graph and its replay.
#pragma once

#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/report/chunk_report.h"

namespace twinstep {

// By rank of the graph; nothing for plans without chunks and choices of blocks.
std::vector<ChunksOfRank> SummarizeChunks(const Model& model, const ResolvedPlan& plan,
                                          const TaskGraph& graph, const Replay& replay);

}  // namespace twinstep
