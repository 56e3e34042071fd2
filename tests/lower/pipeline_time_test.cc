// Lowered pipelines replayed with hand-set times: the known closed forms, to the picosecond where
// they are exact (hw_specs/SOURCES.md M8.1), and Kuaishou's phases (Yuan et al., ATC 2024) within
// 0.4 %.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "sim/engine/engine.h"
#include "sim/estimate/kuaishou_time.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

struct UnitTimes {
  Picoseconds layer_forward = 0, layer_backward = 0;
  Picoseconds embedding_forward = 0, embedding_backward = 0;
  Picoseconds head_forward = 0, head_backward = 0;
  Picoseconds p2p = 0;
};

Model PipelineModel(std::int64_t layers) {
  Model model;
  model.set_family(LLAMA);
  model.set_layers(layers);
  model.set_hidden_size(64);
  model.set_ffn_hidden_size(176);
  model.set_attention_heads(4);
  model.set_kv_heads(4);
  model.set_vocab_size(256);
  model.set_max_sequence_length(64);
  return model;
}

// One task of each block and direction carries the block's time; everything else is free.
GraphCosts SetTimes(const TaskGraph& graph, const UnitTimes& times) {
  GraphCosts costs;
  for (const Picoseconds time :
       {Picoseconds{0}, times.layer_forward, times.layer_backward, times.embedding_forward,
        times.embedding_backward, times.head_forward, times.head_backward, times.p2p}) {
    costs.costs.push_back({.fixed_ps = time});
  }
  costs.interference.set_compute_beside_copy(1);
  costs.interference.set_compute_beside_collective(1);
  costs.interference.set_copy_beside_compute(1);
  costs.interference.set_collective_beside_compute(1);
  for (const Task& task : graph.tasks) {
    std::uint32_t cost = 0;
    switch (graph.shapes[task.shape].op) {
      case OpCode::kSplitQkv:
        cost = 1;
        break;
      case OpCode::kSplitQkvBackward:
        cost = 2;
        break;
      case OpCode::kEmbeddingForward:
        cost = 3;
        break;
      case OpCode::kEmbeddingBackward:
        cost = 4;
        break;
      case OpCode::kCrossEntropyLoss:
        cost = 5;
        break;
      case OpCode::kCrossEntropyBackward:
        cost = 6;
        break;
      case OpCode::kSend:
      case OpCode::kRecv:
        cost = 7;
        break;
      default:
        break;
    }
    costs.cost_of_task.push_back(cost);
  }
  return costs;
}

ResolvedPlan PipelinePlan(Schedule schedule, std::int64_t p, std::int64_t v, std::int64_t l,
                          std::int64_t m) {
  Plan plan;
  plan.set_schedule(schedule);
  plan.set_pipeline_parallel(p);
  plan.set_virtual_stages(v);
  plan.set_global_batch(m);
  plan.set_sequence_length(64);
  return ResolvePlan(PipelineModel(p * v * l), MatrixCluster(), plan, p).value();
}

Picoseconds Makespan(const ResolvedPlan& plan, const UnitTimes& times) {
  const TaskGraph graph = LowerOrDie(PipelineModel(plan.p * plan.v * plan.l), plan, true);
  const Result<Replay> replay = MakeFastEngine()->Run(graph, SetTimes(graph, times));
  EXPECT_TRUE(replay.ok()) << replay.error().message;
  return replay.ok() ? replay.value().makespan_ps : 0;
}

TEST(PipelineTime, OneForwardOneBackwardAndGpipe) {
  const UnitTimes times{.layer_forward = 1'000'003, .layer_backward = 2'000'017};
  for (const Schedule schedule : {ONE_F_ONE_B, GPIPE}) {
    for (std::int64_t p = 1; p <= 6; ++p) {
      for (std::int64_t m = 1; m <= 12; ++m) {
        for (const std::int64_t l : {1, 3}) {
          EXPECT_EQ(Makespan(PipelinePlan(schedule, p, 1, l, m), times),
                    (m + p - 1) * l * (times.layer_forward + times.layer_backward))
              << Schedule_Name(schedule) << " p " << p << " m " << m << " l " << l;
        }
      }
    }
  }
}

TEST(PipelineTime, Interleaved) {
  const UnitTimes times{.layer_forward = 1'000'003, .layer_backward = 2'000'017};
  for (std::int64_t p = 2; p <= 5; ++p) {
    for (std::int64_t v = 2; v <= 4; ++v) {
      for (std::int64_t groups = 1; groups <= 4; ++groups) {
        const std::int64_t m = groups * p;
        EXPECT_EQ(Makespan(PipelinePlan(INTERLEAVED_1F1B, p, v, 2, m), times),
                  (m * v + p - 1) * 2 * (times.layer_forward + times.layer_backward))
            << "p " << p << " v " << v << " m " << m;
      }
    }
  }
}

// Equations 12 to 14. Exact without p2p or without embedding time; else the closed form may count
// one message or one embedding more than the event simulation (Yuan et al., ATC 2024).
TEST(PipelineTime, KuaishouPhases) {
  struct Setting {
    std::int64_t p, v, l, m;
  };
  const std::vector<UnitTimes> settings{
      {.layer_forward = 10'000'000, .layer_backward = 20'000'000},
      {.layer_forward = 10'000'000, .layer_backward = 20'000'000, .p2p = 500'000},
      {.layer_forward = 10'000'000,
       .layer_backward = 20'000'000,
       .embedding_forward = 300'000,
       .embedding_backward = 500'000},
      {.layer_forward = 10'000'000,
       .layer_backward = 20'000'000,
       .head_forward = 1'000'000,
       .head_backward = 2'000'000},
      {.layer_forward = 10'000'000,
       .layer_backward = 21'000'000,
       .embedding_forward = 300'000,
       .embedding_backward = 500'000,
       .head_forward = 1'000'000,
       .head_backward = 2'000'000,
       .p2p = 500'000}};
  for (const Setting& s :
       {Setting{4, 2, 2, 16}, {8, 5, 2, 32}, {3, 3, 1, 12}, {8, 6, 2, 32}, {5, 4, 4, 20}}) {
    const ResolvedPlan plan = PipelinePlan(INTERLEAVED_1F1B, s.p, s.v, s.l, s.m);
    for (const UnitTimes& times : settings) {
      KuaishouPrimitives primitives;
      const auto seconds = [](Picoseconds ps) {
        return static_cast<double>(ps) / kPicosecondsPerSecond;
      };
      primitives.layer_forward_s = seconds(times.layer_forward);
      primitives.layer_backward_s = seconds(times.layer_backward);
      primitives.embedding_forward_s = seconds(times.embedding_forward);
      primitives.embedding_backward_s = seconds(times.embedding_backward);
      primitives.head_forward_s = seconds(times.head_forward);
      primitives.head_backward_s = seconds(times.head_backward);
      primitives.p2p_s = seconds(times.p2p);
      primitives.optimizer_bytes_per_s = 1;
      const KuaishouTime closed =
          EstimateTime(PipelineModel(plan.p * plan.v * plan.l), plan, primitives).value();
      const double expected = closed.warmup_s + closed.steady_s + closed.cooldown_s;
      const double replayed = seconds(Makespan(plan, times));
      EXPECT_LE(std::abs(replayed / expected - 1), 0.004)
          << "p " << s.p << " v " << s.v << " l " << s.l << " m " << s.m << ": replay " << replayed
          << " s, closed form " << expected << " s";
    }
  }
}

}  // namespace
}  // namespace twinstep
