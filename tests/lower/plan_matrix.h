// Plans that together use every schedule and option of the lowering, at up to 16 ranks, for tests
// that must hold for each.
#pragma once

#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {

struct MatrixCase {
  std::string name;  // "tiny-llama t2 c1 p2 d2 v2 interleaved zero1 balanced".
  Model model;
  ResolvedPlan plan;
};

std::vector<MatrixCase> PlanMatrix();

// Two GPUs a node, so that groups lie inside and across nodes.
Cluster MatrixCluster();

// One GPU; the same model, micro-batch size and global batch.
ResolvedPlan PlainPlan(const MatrixCase& test_case);

TaskGraph LowerOrDie(const Model& model, const ResolvedPlan& plan, bool fold);

}  // namespace twinstep
