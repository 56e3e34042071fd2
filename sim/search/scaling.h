// Plain data-parallel scaling: one plan, and nothing of it changes but the data-parallel size.
#pragma once

#include <vector>

#include "sim/result.h"
#include "sim/search/rank_options.h"
#include "sim/search/rank_report.h"

namespace twinstep {

// Fills data_parallel_gpus and data_parallel_tokens_per_s of each point: the best plan of the first
// point that has one, with every data-parallel size and batch of the search that its GPUs allow.
// GPUs that such a plan cannot use stay idle.
Status AddDataParallelScaling(const RankProblem& problem, std::vector<RankPoint>* points);

}  // namespace twinstep
