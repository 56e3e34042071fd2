#include "exec/profile/fewer_micro_batches.h"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "exec/profile/primitive.h"
#include "sim/graph/arena.h"
#include "sim/graph/task_graph.h"

namespace twinstep {
namespace {

constexpr double kOrdinaryFlopsPerSecond = 30e9;  // One core, OpenBLAS, fp32.

// The shards of a batch reduce all its losses at once, a number a micro-batch: the only task whose
// size counts micro-batches. Here it reduces `count` numbers, and those without a micro-batch stay
// as they are. The arena is the caller's to plan again.
void ReduceLosses(std::int64_t count, TaskGraph* graph) {
  const std::int64_t bytes = count * DtypeBytes(Dtype::kFp64);
  std::set<BufferId> losses;
  for (const TensorInfo& tensor : graph->tensors) {
    if (tensor.kind != TensorKind::kLoss) continue;
    losses.insert(tensor.buffer);
    graph->buffers[tensor.buffer].bytes = bytes;
  }
  for (Task& task : graph->tasks) {
    OpShape shape = graph->shapes[task.shape];
    if (shape.op != OpCode::kAllReduce) continue;
    if (!losses.contains(graph->operands[task.operand_begin].buffer)) continue;
    shape.dims[0] = bytes;
    task.shape = static_cast<ShapeId>(graph->shapes.size());
    graph->shapes.push_back(shape);
  }
}

}  // namespace

double EstimateSerialSeconds(const TaskGraph& graph) {
  double flops = 0;
  for (const Task& task : graph.tasks) flops += Flops(graph.shapes[task.shape]);
  return flops / kOrdinaryFlopsPerSecond;
}

LoweredPlan WithFewestMicroBatches(LoweredPlan lowered, const Cluster& cluster) {
  const std::vector<Primitive> wanted = PrimitivesOf(lowered.graph);
  // Interleaved schedules go through the stages with one micro-batch a rank at a time.
  const std::int64_t step = lowered.plan.v > 1 ? lowered.plan.p : 1;
  for (std::int64_t m = step; m < lowered.plan.m; m += step) {
    ResolvedPlan plan = lowered.plan;
    plan.m = m;
    plan.global_batch = plan.b * plan.d * m;
    Result<LoweredPlan> shorter = LowerForRun(lowered.model, cluster, plan);
    if (!shorter.ok()) continue;  // One micro-batch alone may need more chunk buffers.
    TaskGraph& graph = shorter.value().graph;
    ReduceLosses(lowered.plan.m, &graph);
    if (PrimitivesOf(graph) != wanted) continue;
    shorter.value().arena = PlanArena(graph);
    return std::move(shorter).value();
  }
  return lowered;
}

}  // namespace twinstep
