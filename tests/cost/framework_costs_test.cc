// What frameworks' files say about copies to the host, the optimizer there and messages, seen in a
// replay.

#include "sim/cost/framework_costs.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {
namespace {

struct Iteration {
  TaskGraph graph;
  Replay replay;

  double BusySeconds(TaskKind kind, Phase phase) const {
    Picoseconds busy = 0;
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      if (graph.tasks[id].kind != kind || graph.tasks[id].phase != phase) continue;
      busy += replay.end_ps[id] - replay.start_ps[id];
    }
    return static_cast<double>(busy) / kPicosecondsPerSecond;
  }
  // Tasks of this kind and phase during which their rank computes.
  int Hidden(TaskKind kind, Phase phase) const {
    int count = 0;
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      if (graph.tasks[id].kind != kind || graph.tasks[id].phase != phase) continue;
      count += ComputesDuring(id) ? 1 : 0;
    }
    return count;
  }
  bool ComputesDuring(TaskId id) const {
    const RankId rank = graph.tasks[id].rank;
    for (TaskId other = graph.rank_begin[rank]; other < graph.rank_begin[rank + 1]; ++other) {
      if (graph.tasks[other].kind == TaskKind::kCompute &&
          graph.tasks[other].phase != Phase::kOptimizer &&
          replay.start_ps[other] < replay.end_ps[id] &&
          replay.end_ps[other] > replay.start_ps[id]) {
        return true;
      }
    }
    return false;
  }
};

Iteration RunPlan(Plan plan, std::int64_t gpus, const Framework& framework,
                  const char* name = "gpt2-1b") {
  const Model model = FindModel(name).value();
  const Cluster cluster = FindCluster("4xa100").value();
  plan.set_sequence_length(1024);
  plan.set_global_batch(8);
  const ResolvedPlan resolved = ResolvePlan(model, cluster, plan, gpus).value();
  Iteration run;
  run.graph = Lower(model, cluster, resolved, {.framework = &framework}).value();
  const GraphCosts costs =
      ComputeFrameworkCosts(run.graph, model, cluster, nullptr, &framework).value();
  Result<Replay> replay = MakeFastEngine()->Run(run.graph, costs);
  EXPECT_TRUE(replay.ok()) << replay.error().message;
  run.replay = std::move(replay).value();
  return run;
}

Iteration Offloaded(const Framework& framework) {
  Plan plan;
  plan.set_micro_batch(8);
  plan.set_persistent_chunks(0);
  plan.set_chunk_buffers(4);
  plan.set_host_optimizer_overlap(false);
  plan.set_recompute(RECOMPUTE_FULL);
  plan.set_swapped_blocks(32);
  return RunPlan(plan, 1, framework);
}

TEST(FrameworkCostsTest, BlockingCopiesHideBehindNothing) {
  const Iteration plain = Offloaded({});
  EXPECT_GT(plain.Hidden(TaskKind::kH2D, Phase::kParameterGather), 0);
  EXPECT_GT(plain.Hidden(TaskKind::kD2H, Phase::kGradientSync), 0);
  EXPECT_GT(plain.Hidden(TaskKind::kD2H, Phase::kForward), 0);
  Framework blocking;
  blocking.mutable_parameter_copies()->set_blocking(true);
  blocking.mutable_gradient_copies()->set_blocking(true);
  blocking.mutable_activation_copies()->set_blocking(true);
  const Iteration run = Offloaded(blocking);
  EXPECT_EQ(run.Hidden(TaskKind::kH2D, Phase::kParameterGather), 0);
  EXPECT_EQ(run.Hidden(TaskKind::kD2H, Phase::kGradientSync), 0);
  EXPECT_EQ(run.Hidden(TaskKind::kD2H, Phase::kForward), 0);
  EXPECT_EQ(run.Hidden(TaskKind::kH2D, Phase::kBackward), 0);
}

TEST(FrameworkCostsTest, CopiesAreAsWideAndAsSlowAsTheirKindSays) {
  Framework blocking;  // So that copies share no link.
  blocking.mutable_parameter_copies()->set_blocking(true);
  blocking.mutable_gradient_copies()->set_blocking(true);
  const Iteration plain = Offloaded(blocking);
  Framework framework = blocking;
  framework.mutable_gradient_copies()->set_bytes(2);
  framework.mutable_parameter_copies()->set_pageable(true);
  const Iteration run = Offloaded(framework);
  EXPECT_NEAR(run.BusySeconds(TaskKind::kD2H, Phase::kGradientSync) /
                  plain.BusySeconds(TaskKind::kD2H, Phase::kGradientSync),
              2, 0.1);
  EXPECT_NEAR(run.BusySeconds(TaskKind::kH2D, Phase::kParameterGather) /
                  plain.BusySeconds(TaskKind::kH2D, Phase::kParameterGather),
              26 / 6.2, 0.3);
}

TEST(FrameworkCostsTest, OneThreadUpdatesAtOneCoresRate) {
  Framework framework;
  framework.set_host_threads(1);
  framework.set_host_adam_bytes_per_param(100);
  const Iteration run = Offloaded(framework);
  double params = 0;
  for (const Task& task : run.graph.tasks) {
    if (task.kind == TaskKind::kHost) {
      params += static_cast<double>(run.graph.shapes[task.shape].dims[0]);
    }
  }
  EXPECT_NEAR(run.BusySeconds(TaskKind::kHost, Phase::kOptimizer), params * 100 / (14e9 * 4 / 3),
              0.001 * params * 100 / (14e9 * 4 / 3));
}

TEST(FrameworkCostsTest, AShareOfTheHostsRateTakesAsMuchLonger) {
  const double whole_s = Offloaded({}).BusySeconds(TaskKind::kHost, Phase::kOptimizer);
  Framework framework;
  framework.set_host_adam_share(0.5);
  EXPECT_NEAR(Offloaded(framework).BusySeconds(TaskKind::kHost, Phase::kOptimizer) / whole_s, 2,
              0.01);
}

TEST(FrameworkCostsTest, BlockingMessagesStopTheSender) {
  Plan plan;
  plan.set_pipeline_parallel(4);
  plan.set_micro_batch(1);
  const Iteration plain = RunPlan(plan, 4, {});
  Framework framework;
  framework.set_blocking_messages(true);
  const Iteration run = RunPlan(plan, 4, framework);
  EXPECT_GT(plain.Hidden(TaskKind::kSend, Phase::kForward), 0);
  EXPECT_EQ(run.Hidden(TaskKind::kSend, Phase::kForward), 0);
  EXPECT_EQ(run.Hidden(TaskKind::kSend, Phase::kBackward), 0);
  EXPECT_GT(run.replay.makespan_ps, plain.replay.makespan_ps);
}

TEST(FrameworkCostsTest, SplitActivationsAreAPartForEachTensorParallelRank) {
  Plan plan;
  plan.set_pipeline_parallel(2);
  plan.set_tensor_parallel(2);
  plan.set_sequence_parallel(false);
  Framework framework;
  framework.set_split_activation_messages(true);
  const auto bytes = [](const Iteration& run, Phase phase) {
    std::int64_t sum = 0;
    for (const Task& task : run.graph.tasks) {
      if (task.kind == TaskKind::kSend && task.phase == phase) {
        sum += run.graph.shapes[task.shape].dims[0];
      }
    }
    return sum;
  };
  const Iteration plain = RunPlan(plan, 4, {}, "gpt2-10b");
  const Iteration run = RunPlan(plan, 4, framework, "gpt2-10b");
  EXPECT_EQ(2 * bytes(run, Phase::kForward), bytes(plain, Phase::kForward));
  EXPECT_EQ(bytes(run, Phase::kBackward), bytes(plain, Phase::kBackward));
}

TEST(FrameworkCostsTest, SumsAfterProductsHideNothing) {
  Plan plan;
  plan.set_tensor_parallel(4);
  plan.set_sequence_parallel(false);
  const Iteration plain = RunPlan(plan, 4, {});
  Framework framework;
  framework.set_sums_after_products(true);
  const Iteration run = RunPlan(plan, 4, framework);
  EXPECT_GT(plain.Hidden(TaskKind::kCollective, Phase::kBackward), 0);
  EXPECT_EQ(run.Hidden(TaskKind::kCollective, Phase::kBackward), 0);
  EXPECT_GT(run.replay.makespan_ps, plain.replay.makespan_ps);
}

}  // namespace
}  // namespace twinstep
