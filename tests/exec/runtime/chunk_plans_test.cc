// ProTrain's plans train as the plain one: chunks of model states on the GPU and in host memory,
// updated by the CPU, and blocks that are kept, checkpointed and swapped, alone and combined with
// every kind of parallelism.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/exec/runtime/plan_trainer.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

struct Case {
  std::string model, label;
  Plan plan;
};

// A block of the small models has 8.5 to 8.8 thousand parameters of eight bytes: one a chunk, two a
// chunk, all in one.
constexpr std::int64_t kOneBlock = 72 << 10, kTwoBlocks = 150 << 10, kAll = 1 << 20;

// One micro-batch a rank.
Plan OneMicroBatch(std::int64_t d) {
  Plan plan = SmallPlan(1, 1, 1, d);
  if (d == 3) plan.set_global_batch(6);
  plan.set_micro_batch(plan.global_batch() / d);
  return plan;
}

Plan Chunked(Plan plan, std::int64_t persist, std::int64_t buffers,
             std::int64_t chunk_bytes = kOneBlock) {
  plan.set_persistent_chunks(persist);
  plan.set_chunk_buffers(buffers);
  plan.set_chunk_bytes(chunk_bytes);
  return plan;
}

// The same chunks of four-byte parameters.
Plan Thinner(Plan plan) {
  plan.set_chunk_bytes(plan.chunk_bytes() / 2);
  return plan;
}

Plan WithBlocks(Plan plan, const std::string& choices) {
  for (const char choice : choices) {
    plan.add_blocks(choice == 's' ? BLOCK_SWAP : choice == 'c' ? BLOCK_CHECKPOINT : BLOCK_KEEP);
  }
  return plan;
}

std::vector<Case> ChunkCases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& model, const std::string& label, const Plan& plan) {
    cases.push_back({model, label, plan});
  };
  // Every n_persist, n_buffer from 3, 1 to 4 ranks, one micro-batch.
  for (std::int64_t persist = 0; persist <= 6; ++persist) {
    add("llama", "persist", Chunked(OneMicroBatch(1), persist, 3));
    add("gpt-untied", "persist", Chunked(OneMicroBatch(2), persist, 3));
    add("llama-gqa", "persist, clipped",
        Chunked(OneMicroBatch(persist % 2 == 0 ? 3 : 4), persist, 3));
  }
  for (const std::int64_t buffers : {4, 5, 6, 9}) {
    add("llama", "buffers", Chunked(OneMicroBatch(2), 0, buffers));
    add("gpt", "buffers, tied", Chunked(OneMicroBatch(2), 0, buffers));
  }
  for (const std::int64_t persist : {0, 1, 2}) {
    add("llama", "two blocks a chunk", Chunked(OneMicroBatch(2), persist, 3, kTwoBlocks));
    add("gpt", "two blocks a chunk", Chunked(SmallPlan(1, 1, 1, 2), persist, 3, kTwoBlocks));
    add("llama-tied", "one chunk", Chunked(SmallPlan(1, 1, 1, 2), persist % 2, 3, kAll));
  }
  return cases;
}

std::vector<Case> SeveralMicroBatchCases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& model, const std::string& label, const Plan& plan) {
    cases.push_back({model, label, plan});
  };
  for (const std::int64_t persist : {0, 1, 3, 5, 6}) {
    add("llama-gqa", "micro-batches", Chunked(SmallPlan(1, 1, 1, 1), persist, 3));
    add("gpt-untied", "micro-batches", Chunked(SmallPlan(1, 1, 1, 2), persist, 4));
    add("llama-tied", "micro-batches, tied", Chunked(SmallPlan(1, 1, 1, 4), persist % 6, 3));
    add("gpt", "micro-batches, tied, one rank", Chunked(SmallPlan(1, 1, 1, 1), persist % 6, 3));
  }
  add("gpt", "update after the backward",
      Edited(Chunked(SmallPlan(1, 1, 1, 2), 2, 3),
             [](Plan& plan) { plan.set_host_optimizer_overlap(false); }));
  add("llama", "update after the backward", Edited(Chunked(OneMicroBatch(2), 1, 3), [](Plan& plan) {
        plan.set_host_optimizer_overlap(false);
      }));
  return cases;
}

std::vector<Case> BlockCases() {
  std::vector<Case> cases;
  for (const char* blocks : {"skkk", "scsk", "ssss", "cccc", "sckk", "kssk", "cscs", "skck"}) {
    cases.push_back({"llama", "blocks", WithBlocks(OneMicroBatch(1), blocks)});
    cases.push_back({"gpt-untied", "blocks", WithBlocks(SmallPlan(1, 1, 1, 2), blocks)});
    cases.push_back(
        {"gpt", "blocks and chunks", WithBlocks(Chunked(OneMicroBatch(2), 1, 3), blocks)});
    cases.push_back({"llama-gqa", "blocks in stages",
                     Edited(WithBlocks(SmallPlan(1, 1, 2, 1), blocks),
                            [](Plan& plan) { plan.set_virtual_stages(2); })});
  }
  return cases;
}

std::vector<Case> CombinedCases() {
  std::vector<Case> cases;
  const auto add = [&](
                       const std::string& model, const Plan& plan,
                       const std::function<void(Plan&)>& edit = [](Plan&) {}) {
    cases.push_back({model, "combined", Edited(plan, edit)});
  };
  for (const char* model : {"llama", "llama-tied", "gpt", "gpt-untied"}) {
    add(model, Chunked(SmallPlan(1, 1, 2, 1), 1, 3, kOneBlock));
    add(model, Chunked(SmallPlan(1, 1, 2, 2), 0, 3),
        [](Plan& plan) { plan.set_virtual_stages(2); });
    add(model, Chunked(SmallPlan(2, 1, 1, 2), 1, 3, kOneBlock / 2));
    add(model, WithBlocks(Chunked(SmallPlan(2, 1, 2, 2), 1, 4, kOneBlock / 2), "scsc"));
    add(model, WithBlocks(Chunked(SmallPlan(1, 2, 2, 1), 0, 3), "cckk"));
    add(model, Chunked(SmallPlan(2, 2, 1, 1), 2, 3, kOneBlock / 2), [](Plan& plan) {
      plan.set_micro_batch(8);
      plan.set_recompute(RECOMPUTE_BALANCED);
    });
    add(model, Chunked(SmallPlan(1, 1, 4, 1), 0, 3),
        [](Plan& plan) { plan.set_offload_ratio(0.6); });
    add(model, WithBlocks(Chunked(SmallPlan(2, 1, 2, 1), 0, 3, kOneBlock / 2), "ckck"),
        [](Plan& plan) {
          plan.set_offload_ratio(0.5);
          plan.set_sequence_parallel(false);
        });
    add(model, Chunked(SmallPlan(2, 1, 2, 1), 1, 3, kOneBlock / 2), [](Plan& plan) {
      plan.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
      plan.set_schedule(GPIPE);
    });
  }
  return cases;
}

// Sums in the same order, all on the GPU: what a chunk plan equals to the bit. None where some
// chunks are reduced micro-batch by micro-batch and others once.
std::optional<Plan> BaseOf(const Case& test_case, const Model& model) {
  const Plan& plan = test_case.plan;
  if (model.tied_embeddings() && plan.pipeline_parallel() > 1) return std::nullopt;
  Plan base = SmallPlan(plan.tensor_parallel(), plan.context_parallel(), 1, plan.data_parallel());
  base.set_global_batch(plan.global_batch());
  base.set_micro_batch(plan.micro_batch());
  if (plan.has_sequence_parallel()) base.set_sequence_parallel(plan.sequence_parallel());
  base.set_tensor_parallel_overlap(plan.tensor_parallel_overlap());
  const std::int64_t shards = plan.data_parallel() * plan.context_parallel();
  const bool several = plan.global_batch() > plan.micro_batch() * plan.data_parallel();
  const bool sequence_parallel =
      plan.tensor_parallel() > 1 && !(plan.has_sequence_parallel() && !plan.sequence_parallel());
  if ((shards > 1 || sequence_parallel) && several && plan.has_persistent_chunks()) {
    if (plan.persistent_chunks() > 0 || shards == 1) return std::nullopt;
    base.set_zero_stage(2);
  }
  return base;
}

Plan PlainOf(const Plan& plan) {
  Plan plain = SmallPlan(1, 1, 1, 1);
  plain.set_global_batch(plan.global_batch());
  return plain;
}

void ExpectAllTrainAlike(const std::vector<Case>& cases, int least_bit_equal) {
  PlanTrainer trainer(FP64);
  int bit_equal = 0;
  for (const Case& test_case : cases) {
    const std::string label =
        test_case.model + " " + test_case.label + " {" + test_case.plan.ShortDebugString() + "}";
    const Trained& trained = trainer.Train(test_case.model, test_case.plan);
    EXPECT_EQ(Fp64Difference(trained, trainer.Train(test_case.model, PlainOf(test_case.plan))), "")
        << label;
    const std::optional<Plan> base = BaseOf(test_case, trainer.ModelOf(test_case.model));
    if (!base) continue;
    ++bit_equal;
    EXPECT_EQ(BitDifference(trained, trainer.Train(test_case.model, *base)), "") << label;
  }
  EXPECT_GE(bit_equal, least_bit_equal);
}

TEST(ChunkPlansTest, ChunksOfOneMicroBatch) { ExpectAllTrainAlike(ChunkCases(), 30); }

TEST(ChunkPlansTest, ChunksOfSeveralMicroBatches) {
  ExpectAllTrainAlike(SeveralMicroBatchCases(), 7);
}

// Gradients in the parameters' place, which a master copy allows on the GPU and on the host, and
// fp32 gradients beside them.
TEST(ChunkPlansTest, NarrowRecipesGiveTheSameBits) {
  for (const Precision precision : {BF16, FP16}) {
    for (const GradientPrecision gradient : {PARAMETER_GRADIENT, FP32_GRADIENT}) {
      for (const char* name : {"gpt", "llama-gqa"}) {
        Model model = SmallModel(name, precision);
        model.mutable_recipe()->set_gradient_precision(gradient);
        const auto train = [&model](const Plan& plan) {
          TrainingRun run(model, plan, {});
          EXPECT_TRUE(run.Train(kTrainedSteps).ok()) << plan.ShortDebugString();
          return Trained{run.losses(), run.Gather()};
        };
        const Trained expected = train(OneMicroBatch(2));
        const std::int64_t chunk_bytes = kOneBlock / 4;
        for (const std::int64_t persist : {0, 2, 5}) {
          const Plan plan = WithBlocks(Chunked(OneMicroBatch(2), persist, 4, chunk_bytes), "scsk");
          EXPECT_EQ(BitDifference(train(plan), expected), "")
              << name << " " << plan.ShortDebugString();
        }
      }
    }
  }
}

TEST(ChunkPlansTest, PoisonAndShuffledDispatchChangeNothing) {
  std::vector<Case> cases = ChunkCases();
  for (const auto& more : {SeveralMicroBatchCases(), BlockCases(), CombinedCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  EXPECT_GE(cases.size(), 100u);
  PlanTrainer trainer(FP32);
  std::uint64_t seed = 0;
  for (const Case& test_case : cases) {
    if (++seed % 3 != 0) continue;
    RunOptions options{.executor = {.shuffle_seed = seed}};
    options.backend.poison = true;
    TrainingRun run(trainer.ModelOf(test_case.model), Thinner(test_case.plan), options);
    const Status done = run.Train(kTrainedSteps);
    ASSERT_TRUE(done.ok()) << test_case.plan.ShortDebugString() << done.error().message;
    const Trained shuffled{run.losses(), run.Gather()};
    EXPECT_EQ(BitDifference(shuffled, trainer.Train(test_case.model, Thinner(test_case.plan))), "")
        << test_case.model << " " << test_case.plan.ShortDebugString();
  }
}

TEST(ChunkPlansTest, Blocks) { ExpectAllTrainAlike(BlockCases(), 30); }

TEST(ChunkPlansTest, CombinedWithOtherParallelism) { ExpectAllTrainAlike(CombinedCases(), 4); }

}  // namespace
}  // namespace twinstep
