// The symbolic proof at full size: the plans of Yuan et al.'s sample of figure 9, every rank of
// them, against one GPU.

#include <gtest/gtest.h>

#include <string>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/graph/symbolic.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {
namespace {

struct Row {
  const char* model;
  std::int64_t sequence, gpus, batch, t, c, p, l;
  Recompute recompute;
  double alpha;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.model << " on " << row.gpus << ", t " << row.t << " c " << row.c << " p " << row.p
       << " l " << row.l << " alpha " << row.alpha;
}

class Figure9ProofTest : public testing::TestWithParam<Row> {};

TEST_P(Figure9ProofTest, EqualsOneGpu) {
  const Row& row = GetParam();
  const Model model = FindModel(row.model).value();
  const Cluster cluster = FindCluster("h800").value();
  Plan plan;
  plan.set_global_batch(row.batch);
  plan.set_sequence_length(row.sequence);
  const ResolvedPlan plain = ResolvePlan(model, cluster, plan, 1).value();
  plan.set_tensor_parallel(row.t);
  plan.set_context_parallel(row.c);
  plan.set_pipeline_parallel(row.p);
  plan.set_layers_per_stage(row.l);
  plan.set_recompute(row.recompute);
  plan.set_offload_ratio(row.alpha);
  const Result<ResolvedPlan> resolved = ResolvePlan(model, cluster, plan, row.gpus);
  ASSERT_TRUE(resolved.ok()) << resolved.error().message;
  const TaskGraph graph = Lower(model, cluster, resolved.value(), {.fold = false}).value();
  const TaskGraph plain_graph = Lower(model, cluster, plain, {.fold = false}).value();
  RecordProperty("tasks", static_cast<int>(graph.TaskCount()));
  const Status proof = ProveEqual(graph, plain_graph);
  EXPECT_TRUE(proof.ok()) << proof.error().message;
}

constexpr Recompute kOurs = RECOMPUTE_BALANCED;
constexpr Recompute kNo = RECOMPUTE_NONE;
INSTANTIATE_TEST_SUITE_P(
    Sample, Figure9ProofTest,
    testing::Values(Row{"llama-175b", 4096, 256, 256, 2, 2, 16, 1, kNo, 0.522},
                    Row{"llama-175b", 4096, 160, 240, 4, 1, 8, 2, kOurs, 0.334},
                    Row{"llama-175b", 4096, 120, 270, 4, 1, 6, 2, kOurs, 0.851},
                    Row{"llama-175b", 4096, 48, 264, 4, 1, 12, 1, kOurs, 0.999},
                    Row{"llama-65b", 4096, 200, 250, 4, 1, 5, 4, kNo, 0.000},
                    Row{"llama-65b", 4096, 128, 256, 2, 1, 8, 2, kOurs, 0.000},
                    Row{"llama-65b", 4096, 96, 240, 2, 1, 8, 2, kOurs, 0.035},
                    Row{"llama-65b", 4096, 56, 252, 2, 1, 4, 2, kOurs, 0.945},
                    Row{"llama-65b", 4096, 32, 272, 2, 1, 8, 2, kOurs, 0.544},
                    Row{"llama2-70b", 8192, 224, 252, 2, 4, 4, 4, kOurs, 0.352},
                    Row{"llama2-70b", 8192, 160, 260, 2, 4, 10, 2, kNo, 0.000},
                    Row{"llama2-70b", 8192, 120, 270, 2, 2, 5, 2, kOurs, 0.460},
                    Row{"llama2-70b", 8192, 80, 260, 2, 2, 10, 2, kOurs, 0.024},
                    Row{"llama2-70b", 8192, 40, 260, 2, 1, 10, 2, kOurs, 0.713},
                    // Figure 7's plan.
                    Row{"llama-65b", 8192, 256, 256, 2, 2, 8, 2, kOurs, 0.3}));

}  // namespace
}  // namespace twinstep
