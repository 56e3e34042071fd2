// The bound holds for every plan of the matrix and for the paper's plans, and is close enough to
// prune with.
#include "sim/estimate/pipeline_bound.h"

#include <gtest/gtest.h>

#include "hw_specs/find_cluster.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
#include "tests/estimate/paper_plans.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

Picoseconds Replayed(const Model& model, const Cluster& cluster, const ResolvedPlan& plan) {
  const TaskGraph graph = Lower(model, cluster, plan).value();
  const GraphCosts costs = ComputeCosts(graph, model, cluster, nullptr).value();
  return MakeFastEngine()->Run(graph, costs).value().makespan_ps;
}

double BoundOverReplay(const Model& model, const Cluster& cluster, const ResolvedPlan& plan) {
  const PlanParts parts = MeasureParts(model, cluster, nullptr, nullptr, plan).value();
  return static_cast<double>(PipelineBound(model, plan, parts)) /
         static_cast<double>(Replayed(model, cluster, plan));
}

TEST(PipelineBoundTest, HoldsForEveryPlanOfTheMatrix) {
  for (const char* name : {"h800", "dgx-a100", "4x3090"}) {
    const Cluster cluster = FindCluster(name).value();
    for (const MatrixCase& x : PlanMatrix()) {
      if (x.plan.chunks.enabled || !x.plan.blocks.empty()) continue;
      if (x.plan.gpus > cluster.nodes() * cluster.node().gpus()) continue;
      EXPECT_LE(BoundOverReplay(x.model, cluster, x.plan), 1) << name << " " << x.name;
    }
  }
}

TEST(PipelineBoundTest, IsCloseForThePapersPlans) {
  const Cluster cluster = FindCluster("h800").value();
  for (const PaperRow& row : Figure9()) {
    if (row.gpus < 200) continue;  // Smaller ones have more micro-batches and take longer here.
    const Model model = PaperModel(row.model);
    ResolvedPlan plan = PaperPlan(model, row.gpus, row.sequence_length, row.global_batch, row.t,
                                  row.c, row.p, row.l, row.recompute);
    plan.offload_ratio = row.alpha;
    const double ratio = BoundOverReplay(model, cluster, plan);
    EXPECT_LE(ratio, 1) << row.model << " " << row.gpus;
    EXPECT_GE(ratio, 0.9) << row.model << " " << row.gpus;
  }
}

}  // namespace
}  // namespace twinstep
