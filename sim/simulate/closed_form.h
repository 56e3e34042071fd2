// The papers' closed forms of a plan that was lowered and replayed: which paper's, from which
// primitives, beside what of the replay.
//
//   Result<ClosedFormReport> form = ClosedForm(model, plan, {cluster, profile, graph, costs,
//   replay});
#pragma once

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/report/report.h"
#include "sim/result.h"

namespace twinstep {

struct ReplayedPlan {
  const Cluster& cluster;
  const Profile* profile;  // Null = none; workspaces of kernels come from it.
  const TaskGraph& graph;
  const GraphCosts& costs;
  const Replay& replay;
};

// Kuaishou's for pipelines, ProTrain's for chunks. Error (kBadInput) where neither has a form for
// the plan.
Result<ClosedFormReport> ClosedForm(const Model& model, const ResolvedPlan& plan,
                                    const ReplayedPlan& replayed);

}  // namespace twinstep
