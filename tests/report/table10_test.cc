// Yuan et al.'s table 10, regenerated from the lowering: p = 4, v = 2, m = 8, rank 0 of a pipeline
// with activation offload, all 32 steps.

#include <gtest/gtest.h>

#include <string>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/cost/graph_costs.h"
#include "sim/lower/lower.h"
#include "sim/report/pipeline_steps.h"

namespace twinstep {
namespace {

std::string Text(const std::optional<BlockId>& block) {
  return block ? "(" + std::to_string(block->micro_batch) + "," + std::to_string(block->stage) + ")"
               : "-";
}

std::string Text(const PipelineStep& step, const StepState& state) {
  return (step.backward ? "B" : "F") + Text(step.block) + " " + Text(state.offloading) + " " +
         Text(state.reloading) + " " + std::to_string(state.living) + " " +
         std::to_string(state.whole_on_gpu) + " " + std::to_string(state.reload_buffers) + " " +
         std::to_string(state.on_host);
}

std::vector<std::string> Table(double ratio) {
  const Model model = FindModel("llama-7b").value();
  const Cluster cluster = FindCluster("h800").value();
  Plan plan;
  plan.set_pipeline_parallel(4);
  plan.set_virtual_stages(2);
  plan.set_global_batch(8);
  plan.set_sequence_length(4096);
  plan.set_offload_ratio(ratio);
  const ResolvedPlan resolved = ResolvePlan(model, cluster, plan, 4).value();
  const TaskGraph graph = Lower(model, cluster, resolved).value();
  const GraphCosts costs = ComputeCosts(graph, model, cluster, nullptr).value();
  const Replay replay = MakeFastEngine()->Run(graph, costs).value();
  const std::vector<PipelineStep> steps = StepsOfRank(graph, 0);
  const std::vector<StepState> states = StatesOfSteps(graph, replay, 0, steps);
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < steps.size(); ++i) rows.push_back(Text(steps[i], states[i]));
  return rows;
}

TEST(Table10, EveryStepOfRankZero) {
  // operation, offload in flight, reload in flight, living, whole on GPU, reload buffers, on host
  const std::vector<std::string> expected{
      "F(0,0) - - 1 1 0 0",          "F(1,0) (0,0) - 2 2 0 0",      "F(2,0) (1,0) - 3 2 0 1",
      "F(3,0) (2,0) - 4 2 0 2",      "F(0,4) (3,0) - 5 2 0 3",      "F(1,4) (0,4) - 6 2 0 4",
      "F(2,4) (1,4) - 7 2 0 5",      "F(3,4) (2,4) - 8 2 0 6",      "F(4,0) (3,4) - 9 2 0 7",
      "F(5,0) (4,0) - 10 2 0 8",     "F(6,0) (5,0) (0,4) 11 2 1 9", "B(0,4) (6,0) (1,4) 11 1 2 9",
      "F(7,0) (6,0) (1,4) 11 2 1 9", "B(1,4) (7,0) (2,4) 11 1 2 9", "F(4,4) (7,0) (2,4) 11 2 1 9",
      "B(2,4) (4,4) (3,4) 11 1 2 9", "F(5,4) (4,4) (3,4) 11 2 1 9", "B(3,4) (5,4) (0,0) 11 1 2 9",
      "F(6,4) (5,4) (0,0) 11 2 1 9", "B(0,0) (6,4) (1,0) 11 1 2 9", "F(7,4) (6,4) (1,0) 11 2 1 9",
      "B(1,0) (7,4) (2,0) 11 1 2 9", "B(2,0) - (3,0) 10 0 2 9",     "B(3,0) - (4,4) 9 0 2 8",
      "B(4,4) - (5,4) 8 0 2 7",      "B(5,4) - (6,4) 7 0 2 6",      "B(6,4) - (7,4) 6 0 2 5",
      "B(7,4) - (4,0) 5 0 2 4",      "B(4,0) - (5,0) 4 0 2 3",      "B(5,0) - (6,0) 3 0 2 2",
      "B(6,0) - (7,0) 2 0 2 1",      "B(7,0) - - 1 0 1 0"};
  for (const double ratio : {0.25, 0.5}) EXPECT_EQ(Table(ratio), expected) << ratio;
}

}  // namespace
}  // namespace twinstep
