// Training on the GPU: the CPU backend's losses, and plans that change time and memory, never the
// result.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_options.h"
#include "tests/exec/cuda/gpu_training.h"
#include "tests/exec/cuda/has_gpu.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

TEST(CudaTrainingTest, LossesAreThoseOfTheCpu) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  constexpr int kSteps = 50;
  for (const std::string& name : SmallModelNames()) {
    for (const auto& [precision, tolerance] :
         {std::pair(FP64, 1e-9), std::pair(FP32, 1e-3), std::pair(BF16, 1e-2)}) {
      SCOPED_TRACE(name + ", precision " + Precision_Name(precision));
      const Model model = SmallModel(name, precision);
      const Plan plan = SmallPlan(1, 1, 1, 1);
      const Trained cpu = Train(model, plan, {}, kSteps);
      const Trained gpu = Train(model, plan, OnGpu({}), kSteps);
      EXPECT_LE(LargestDifference(gpu.losses, cpu.losses), tolerance);
    }
  }
}

TEST(CudaTrainingTest, FusedAttentionTrainsAsTheCpu) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  constexpr int kSteps = 50;
  for (const char* name : {"llama-gqa", "gpt"}) {
    SCOPED_TRACE(name);
    const Trained cpu = Train(LongModel(name), LongPlan(1), {}, kSteps);
    for (const bool deterministic : {false, true}) {
      const Trained gpu =
          Train(LongModel(name), LongPlan(1), OnGpu({.deterministic = deterministic}), kSteps);
      EXPECT_LE(LargestDifference(gpu.losses, cpu.losses), 1e-2);
    }
  }
}

// Four pieces of 128 tokens.
TEST(CudaTrainingTest, FusedAttentionOfContextParallelRanksTrainsAlike) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  constexpr int kSteps = 20;
  constexpr std::int64_t kSequence = 512;
  Model model = LongModel("llama-gqa");
  model.set_max_sequence_length(kSequence);
  Plan plain = LongPlan(1);
  plain.set_sequence_length(kSequence);
  Plan context = plain;
  context.set_context_parallel(2);
  for (const bool deterministic : {false, true}) {
    const RunOptions options = OnGpu({.deterministic = deterministic});
    const Trained whole = Train(model, plain, options, kSteps);
    const Trained pieces = Train(model, context, options, kSteps);
    EXPECT_LE(LargestDifference(pieces.losses, whole.losses), 1e-2);
    if (!deterministic) continue;
    EXPECT_EQ(Different(Train(model, context, options, kSteps), pieces), "") << "a second run";
  }
}

struct PlanCase {
  const char* label;
  std::function<void(Plan&)> edit;
};

// Plans of one rank a stage that only schedule or place differently.
std::vector<PlanCase> PlacingPlans() {
  return {
      {"two stages", [](Plan& plan) { plan.set_pipeline_parallel(2); }},
      {"gpipe",
       [](Plan& plan) {
         plan.set_pipeline_parallel(2);
         plan.set_schedule(GPIPE);
       }},
      {"interleaved",
       [](Plan& plan) {
         plan.set_pipeline_parallel(2);
         plan.set_virtual_stages(2);
       }},
      {"offload",
       [](Plan& plan) {
         plan.set_pipeline_parallel(4);
         plan.set_offload_ratio(0.6);
       }},
      {"interleaved, offload, full recompute",
       [](Plan& plan) {
         plan.set_pipeline_parallel(2);
         plan.set_virtual_stages(2);
         plan.set_offload_ratio(1);
         plan.set_recompute(RECOMPUTE_FULL);
       }},
      {"full recompute", [](Plan& plan) { plan.set_recompute(RECOMPUTE_FULL); }},
      {"chunks that stream, Adam on the host",
       [](Plan& plan) {
         plan.set_persistent_chunks(1);
         plan.set_chunk_buffers(3);
       }},
      {"chunks, swapped and checkpointed blocks, Adam after the backward",
       [](Plan& plan) {
         plan.set_persistent_chunks(0);
         plan.set_host_optimizer_overlap(false);
         plan.set_swapped_blocks(1);
         plan.set_checkpointed_blocks(1);
       }},
      {"balanced recompute", [](Plan& plan) { plan.set_recompute(RECOMPUTE_BALANCED); }},
  };
}

TEST(CudaTrainingTest, DeterministicPlansGiveTheSameBits) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  constexpr int kSteps = 5;
  const RunOptions options = OnGpu({.deterministic = true});
  const RunOptions eager = OnGpu({.deterministic = true, .late_lanes = false});
  for (const char* name : {"llama-gqa", "gpt-untied"}) {
    for (const bool is_long : {false, true}) {
      const Model model = is_long ? LongModel(name) : SmallModel(name, BF16);
      const Plan plain = is_long ? LongPlan(1) : SmallPlan(1, 1, 1, 1);
      const Trained expected = Train(model, plain, options, kSteps);
      EXPECT_EQ(Different(Train(model, plain, options, kSteps), expected), "") << "a second run";
      for (const PlanCase& test_case : PlacingPlans()) {
        SCOPED_TRACE(std::string(name) + ", " + test_case.label + (is_long ? ", long" : ""));
        Plan plan = plain;
        test_case.edit(plan);
        // A block each, or all would be one chunk that stays on the GPU.
        if (plan.has_persistent_chunks()) plan.set_chunk_bytes((is_long ? 64 : 24) << 10);
        EXPECT_EQ(Different(Train(model, plan, options, kSteps), expected), "");
        EXPECT_EQ(Different(Train(model, plan, eager, kSteps), expected), "") << "eager lanes";
      }
    }
  }
}

// Sums in another order: sharp in fp64.
TEST(CudaTrainingTest, PlansOfSeveralRanksTrainAlike) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  constexpr int kSteps = 5;
  for (const std::string& name : SmallModelNames()) {
    const Model model = SmallModel(name, FP64);
    const Trained plain = Train(model, SmallPlan(1, 1, 1, 1), OnGpu({}), kSteps);
    for (const auto& [t, c, p, d] :
         std::vector<std::array<int, 4>>{{2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 1, 2}, {2, 2, 2, 2}}) {
      SCOPED_TRACE(name + ", ranks " + std::to_string(t) + " " + std::to_string(c) + " " +
                   std::to_string(p) + " " + std::to_string(d));
      for (const int zero : {1, 3}) {
        Plan plan = SmallPlan(t, c, p, d);
        if (zero == 3) plan.set_zero_stage(3);
        for (const bool late_lanes : {false, true}) {
          const Trained trained = Train(model, plan, OnGpu({.late_lanes = late_lanes}), kSteps);
          EXPECT_LE(LargestDifference(trained.losses, plain.losses), 1e-9);
        }
      }
    }
    Plan chunked = SmallPlan(2, 1, 1, 2);
    chunked.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
    EXPECT_LE(LargestDifference(Train(model, chunked, OnGpu({}), kSteps).losses, plain.losses),
              1e-9);
    Plan unfused = SmallPlan(1, 1, 1, 1);
    unfused.set_attention(ATTENTION_UNFUSED);
    EXPECT_LE(LargestDifference(Train(model, unfused, OnGpu({}), kSteps).losses, plain.losses),
              1e-9);
  }
}

TEST(CudaTrainingTest, DropoutDrawsTheMasksOfTheCpu) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  Model model = SmallModel("gpt", FP64);
  model.mutable_recipe()->set_hidden_dropout(0.1);
  model.mutable_recipe()->set_attention_dropout(0.2);
  const Trained cpu = Train(model, SmallPlan(1, 1, 1, 1), {}, 5);
  for (const bool two_stages : {false, true}) {
    const Trained gpu = Train(model, SmallPlan(1, 1, two_stages ? 2 : 1, 1), OnGpu({}), 5);
    EXPECT_LE(LargestDifference(gpu.losses, cpu.losses), 1e-9);
  }
}

// As the largest models train: half precision with the gradient in the parameter's place, dropout,
// tied embeddings, chunks that stream to a CPU's Adam, every block checkpointed.
TEST(CudaTrainingTest, FourteenBytesAParameterTrainAsOnTheCpu) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  Model model = SmallModel("gpt", BF16);
  model.mutable_recipe()->set_gradient_precision(PARAMETER_GRADIENT);
  model.mutable_recipe()->clear_clip_norm();
  model.mutable_recipe()->set_hidden_dropout(0.1);
  model.mutable_recipe()->set_attention_dropout(0.1);
  Plan plan = SmallPlan(1, 1, 1, 1);
  plan.set_micro_batch(plan.global_batch());
  plan.set_persistent_chunks(2);
  plan.set_chunk_bytes(16 << 10);  // A block each: two chunks stay, three stream.
  plan.set_chunk_buffers(3);
  plan.set_checkpointed_blocks(model.layers());
  const Trained cpu = Train(model, plan, {}, 50);
  for (const bool late_lanes : {false, true}) {
    const Trained gpu = Train(model, plan, OnGpu({.late_lanes = late_lanes}), 50);
    EXPECT_LE(LargestDifference(gpu.losses, cpu.losses), 1e-2);
  }
}

TEST(CudaTrainingTest, TimesAreInOrder) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  Plan offload = SmallPlan(1, 1, 4, 1);
  offload.set_offload_ratio(0.5);
  Plan chunks = SmallPlan(1, 1, 1, 1);
  chunks.set_persistent_chunks(1);
  chunks.set_chunk_buffers(3);
  chunks.set_chunk_bytes(24 << 10);
  for (const Plan& plan : {offload, chunks}) {
    for (const bool late_lanes : {false, true}) {
      SCOPED_TRACE(late_lanes ? "late lanes" : "");
      TrainingRun run(SmallModel("llama", BF16), plan,
                      OnGpu({.record_times = true, .late_lanes = late_lanes}));
      const Status done = run.Train(3);
      ASSERT_TRUE(done.ok()) << done.error().message;
      const Execution execution = run.executor().LastExecution();
      const TaskGraph& graph = run.graph();
      constexpr std::int64_t kResolutionPs = 2'000'000;  // Of the events, twice.
      for (TaskId id = 0; id < graph.TaskCount(); ++id) {
        EXPECT_LE(execution.start_ps[id], execution.end_ps[id] + kResolutionPs);
        for (const TaskId next : graph.Successors(id)) {
          EXPECT_LE(execution.end_ps[id], execution.end_ps[next] + kResolutionPs)
              << graph.TaskName(id) << " and " << graph.TaskName(next);
          if (graph.tasks[next].kind == TaskKind::kHost || IsCopy(graph.tasks[next].kind)) {
            EXPECT_LE(execution.end_ps[id], execution.start_ps[next] + kResolutionPs)
                << graph.TaskName(id) << " and " << graph.TaskName(next);
          }
        }
      }
      EXPECT_GT(execution.iteration_ps, 0);
    }
  }
}

TEST(CudaTrainingTest, TooSmallAGpuIsAnError) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  const Model model = SmallModel("llama", BF16);
  const ResolvedPlan plan = ResolveOrDie(model, SmallPlan(1, 1, 1, 1));
  const TaskGraph graph = LowerOrDie(model, plan);
  const ArenaPlan arena = PlanArena(graph);
  Result<std::unique_ptr<Backend>> backend = MakeCudaBackend({.memory_limit_bytes = 1000});
  ASSERT_TRUE(backend.ok());
  const Result<std::unique_ptr<Executor>> executor =
      Executor::Create(graph, arena, plan, backend.value().get(), {});
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.error().code, ExitCode::kNo);
  EXPECT_EQ(executor.error().rule, "gpu-memory");
}

TEST(CudaTrainingTest, SharedOperatorsComputeTheSameBits) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  const Model model = LongModel("llama");
  CudaOptions options{.deterministic = true};
  const Trained alone = Train(model, LongPlan(1), OnGpu(options), 3);
  options.operators = MakeOperatorCache();
  for (int backend = 0; backend < 2; ++backend) {
    EXPECT_EQ(Different(Train(model, LongPlan(1), OnGpu(options), 3), alone), "");
  }
}

TEST(CudaTrainingTest, BlocksRepeatUpToTheLastByte) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  const Model model = SmallModel("llama", BF16);
  const ResolvedPlan plan = ResolveOrDie(model, SmallPlan(1, 1, 1, 1));
  const TaskGraph graph = LowerOrDie(model, plan);
  const ArenaPlan arena = PlanArena(graph);
  const std::unique_ptr<Backend> backend = MakeCudaBackend({}).value();
  ASSERT_TRUE(Executor::Create(graph, arena, plan, backend.get(), {}).ok());
  BufferId buffer = 0;
  while (graph.buffers[buffer].bytes < 1000) ++buffer;
  const std::vector<std::byte> block = {std::byte{1}, std::byte{2}, std::byte{3}};
  std::vector<std::byte> all(1000);
  backend->Read(buffer, 0, all);
  std::vector<std::byte> expected = all;
  for (std::size_t i = 0; i < 500; ++i) expected[1 + i] = block[i % 3];
  backend->WriteRepeated(buffer, 1, 500, block);
  backend->Read(buffer, 0, all);
  EXPECT_EQ(all, expected);
}

TEST(CudaTrainingTest, WithoutAGpuTheReasonIsSaid) {
  const Result<CudaDevice> device = DescribeCudaDevice(1000);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ExitCode::kNo);
  EXPECT_NE(device.error().message.find("GPU"), std::string::npos);
}

}  // namespace
}  // namespace twinstep
