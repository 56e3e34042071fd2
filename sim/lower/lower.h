// Model x cluster x plan -> task graph of one training iteration.
//
//   Result<TaskGraph> graph = Lower(model, cluster, plan, {.fold = true});
//
// An iteration starts with the parameter all-gather and ends with the optimizer.
#pragma once

#include "hw_specs/cluster.pb.h"
#include "hw_specs/frameworks/framework.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

struct LowerOptions {
  // Emit one representative a symmetry class instead of every rank.
  bool fold = true;
  // What else memory holds (framework_memory.h), and which copies and messages block computation;
  // null: nothing.
  const Framework* framework = nullptr;
};

Result<TaskGraph> Lower(const Model& model, const Cluster& cluster, const ResolvedPlan& plan,
                        const LowerOptions& options = {});

}  // namespace twinstep
