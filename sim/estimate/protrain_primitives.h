// What ProTrain's cost model takes of its profiler (times of chunks, of operators and of what moves
// them; memory of operators), from lowered graphs and their costs.
//
//   const ProTrainPrimitives x = MeasureChunks(graph, costs, plan).value();
//   EstimateTime(x.plan, x.rates);
//   ProTrainMemoryInput memory = MeasureActivations(plain_graph, plan, layers, input_bytes);
//   AddModelStates(graph, x.plan, &memory);
//   EstimatePeakMemory(memory);
#pragma once

#include "sim/cost/graph_costs.h"
#include "sim/estimate/protrain_memory.h"
#include "sim/estimate/protrain_time.h"
#include "sim/graph/operator_memory.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

struct ProTrainPrimitives {
  ProTrainPlan plan;
  ProTrainRates rates;
};

// `graph` is `plan` lowered, folded or not; its first rank counts. Times are those of tasks alone
// (alone_times.h). Errors (kBadInput): a plan without chunks, or one that the paper's model does
// not cover: pipelines and several micro-batches.
Result<ProTrainPrimitives> MeasureChunks(const TaskGraph& graph, const GraphCosts& costs,
                                         const ResolvedPlan& plan);

// The operators of a backward, and what each block stores. `graph` is a plan lowered that keeps
// every block, with one micro-batch; `plan` says which blocks are checkpointed or swapped.
// `input_bytes`: of a block's input, which a checkpoint keeps; `workspace`: what kernels take
// besides their buffers. Model states are left at 0.
ProTrainMemoryInput MeasureActivations(const TaskGraph& graph, const ResolvedPlan& plan,
                                       std::int64_t layers, double input_bytes,
                                       const WorkspaceOfTask& workspace = {});

// Adds what lies in GPU memory besides: persistent chunks and buffers, and as part of M_fwd inputs,
// workspaces and gradient buffers. `graph` is the chunk plan lowered, `chunks` measured on it.
void AddModelStates(const TaskGraph& graph, const ProTrainPlan& chunks, ProTrainMemoryInput* input);

}  // namespace twinstep
