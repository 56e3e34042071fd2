#include "sim/estimate/layer_activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/estimate/kuaishou_memory.h"
#include "sim/estimate/model_size.h"
#include "tests/estimate/paper_plans.h"

namespace twinstep {
namespace {

// One micro-batch of one sequence on t c GPUs.
ResolvedPlan Single(std::int64_t s, std::int64_t t, Recompute recompute) {
  ResolvedPlan plan;
  plan.gpus = plan.t = t;
  plan.sequence_length = s;
  plan.sequence_parallel = t > 1;
  plan.recompute = recompute;
  return plan;
}

double Bytes(const Model& model, const ResolvedPlan& plan) {
  const auto bytes = LayerActivationBytes(model, plan);
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes.value();
}

// Yuan et al., ATC 2024, in units of b s h.
TEST(LayerActivationsTest, LlamaLayersInUnitsOfBsh) {
  struct Row {
    const char* model;
    double none, balanced;
  };
  for (const Row& row : {Row{"llama-65b", 37.5, 22.75}, Row{"llama2-70b", 40.5, 22.5},
                         Row{"llama-175b", 37.0 + 1.0 / 3, 22.0 + 2.0 / 3}}) {
    const Model model = PaperModel(row.model);
    const double bsh = 4096.0 * static_cast<double>(model.hidden_size());
    for (const std::int64_t t : {1, 8}) {
      const double unit = bsh / static_cast<double>(t);
      EXPECT_DOUBLE_EQ(Bytes(model, Single(4096, t, RECOMPUTE_NONE)) / unit, row.none);
      EXPECT_DOUBLE_EQ(Bytes(model, Single(4096, t, RECOMPUTE_BALANCED)) / unit, row.balanced);
      EXPECT_DOUBLE_EQ(Bytes(model, Single(4096, t, RECOMPUTE_FULL)) / unit, 2);
    }
  }
}

TEST(LayerActivationsTest, SavingsOfBalancedCheckpointing) {
  const auto saving = [](const char* name) {
    const Model model = PaperModel(name);
    return 100 * (1 - Bytes(model, Single(4096, 1, RECOMPUTE_BALANCED)) /
                          Bytes(model, Single(4096, 1, RECOMPUTE_NONE)));
  };
  EXPECT_NEAR(saving("llama-175b"), 39.29, 0.005);
  EXPECT_NEAR(saving("llama-65b"), 39.33, 0.005);
  EXPECT_NEAR(saving("llama2-70b"), 44.44, 0.005);
}

TEST(LayerActivationsTest, ContextParallelismShardsEverything) {
  const Model model = PaperModel("llama2-70b");
  ResolvedPlan plan = Single(8192, 2, RECOMPUTE_NONE);
  const double whole = Bytes(model, plan);
  plan.c = 4;
  EXPECT_DOUBLE_EQ(Bytes(model, plan), whole / 4);
}

// Korthikanti et al. 2022, hw_specs/SOURCES.md M8.3, with unfused attention and dropout.
class KorthikantiTest : public testing::Test {
 protected:
  static constexpr double kS = 2048;

  double Layer(const Model& model, std::int64_t t, bool sequence_parallel, Recompute recompute,
               std::int64_t b = 1) const {
    ResolvedPlan plan = Single(static_cast<std::int64_t>(kS), t, recompute);
    plan.b = b;
    plan.attention = ATTENTION_UNFUSED;
    plan.sequence_parallel = sequence_parallel;
    return Bytes(model, plan);
  }
};

TEST_F(KorthikantiTest, FormulasOfOneLayer) {
  for (const char* name : {"megatron-22b", "megatron-175b", "megatron-530b", "megatron-1t"}) {
    const Model model = PaperModel(name, 51200);
    const double h = static_cast<double>(model.hidden_size());
    const double sbh = kS * 4 * h;
    const double scores = 5 * static_cast<double>(model.attention_heads()) * kS / h;
    EXPECT_DOUBLE_EQ(Layer(model, 1, false, RECOMPUTE_NONE, 4), sbh * (34 + scores));
    EXPECT_DOUBLE_EQ(Layer(model, 8, false, RECOMPUTE_NONE, 4), sbh * (10 + 24.0 / 8 + scores / 8));
    EXPECT_DOUBLE_EQ(Layer(model, 8, true, RECOMPUTE_NONE, 4), sbh * (34 + scores) / 8);
    EXPECT_DOUBLE_EQ(Layer(model, 8, true, RECOMPUTE_SELECTIVE, 4), sbh * 34 / 8);
    EXPECT_DOUBLE_EQ(Layer(model, 8, false, RECOMPUTE_FULL, 4), sbh * 2);
  }
}

// M2b, GiB: "parameters + optimizer" of the layers, and their activations.
TEST_F(KorthikantiTest, MemoryOfFigure1) {
  const Model small = PaperModel("megatron-22b", 51200);
  const Model large = PaperModel("megatron-175b", 51200);
  const auto states = [](const Model& model, double layers) {
    const Recipe& recipe = model.recipe();
    const std::int64_t bytes = WeightBytes(recipe) + GradientBytes(recipe) + OptimizerBytes(recipe);
    return layers * static_cast<double>(LayerParameters(model) * bytes) / 8 / kGiB;
  };
  EXPECT_EQ(states(small, 48), 45.5625);
  EXPECT_EQ(states(large, 12), 45.5625);

  // 22B: one stage, 48 layers, micro-batch 4. 175B: p = 8, v = 3, so 31 blocks of 4 layers live.
  ResolvedPlan plan = Single(2048, 8, RECOMPUTE_NONE);
  plan.attention = ATTENTION_UNFUSED;
  const auto activations = [&](const Model& model, bool reduced) {
    plan.sequence_parallel = reduced;
    plan.recompute = reduced ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE;
    return EstimateMemory(model, plan, 0).value().activations_bytes() / kGiB;
  };
  plan.b = 4;
  plan.l = 48;
  EXPECT_EQ(activations(small, false), 59.25);
  EXPECT_EQ(activations(small, true), 9.5625);
  plan.b = 1;
  plan.l = 4;
  plan.p = 8;
  plan.v = 3;
  plan.m = 64;
  plan.schedule = INTERLEAVED_1F1B;
  EXPECT_EQ(activations(large, false), 66.84375);
  EXPECT_EQ(activations(large, true), 12.3515625);
}

// M2c, per cent of tensor parallelism alone; the published figures lie up to 0.08 points above
// the formulas of the same paper.
TEST_F(KorthikantiTest, RatiosOfFigure7) {
  struct Row {
    const char* model;
    double sequence_parallel, selective, both, full;
  };
  for (const Row& row : {Row{"megatron-22b", 66.84, 49.42, 16.18, 7.64},
                         Row{"megatron-175b", 62.04, 56.53, 18.49, 8.71}}) {
    const Model model = PaperModel(row.model, 51200);
    const double base = Layer(model, 8, false, RECOMPUTE_NONE) / 100;
    EXPECT_NEAR(Layer(model, 8, true, RECOMPUTE_NONE) / base, row.sequence_parallel, 0.09);
    EXPECT_NEAR(Layer(model, 8, false, RECOMPUTE_SELECTIVE) / base, row.selective, 0.09);
    EXPECT_NEAR(Layer(model, 8, true, RECOMPUTE_SELECTIVE) / base, row.both, 0.09);
    EXPECT_NEAR(Layer(model, 8, false, RECOMPUTE_FULL) / base, row.full, 0.09);
  }
}

TEST_F(KorthikantiTest, FlashAttentionAndNoDropoutStoreLess) {
  Model model = PaperModel("megatron-22b", 51200);
  const double sbh = kS * static_cast<double>(model.hidden_size());
  EXPECT_DOUBLE_EQ(Bytes(model, Single(2048, 1, RECOMPUTE_NONE)), 34 * sbh);
  model.mutable_recipe()->set_hidden_dropout(0);
  EXPECT_DOUBLE_EQ(Bytes(model, Single(2048, 1, RECOMPUTE_NONE)), 32 * sbh);
  // Norm outputs and the activation function's output rebuilt.
  EXPECT_DOUBLE_EQ(Bytes(model, Single(2048, 1, RECOMPUTE_BALANCED)), (32 - 2 - 2 - 8) * sbh);
  model.mutable_recipe()->set_attention_dropout(0);
  const double scores = static_cast<double>(model.attention_heads()) * kS * kS;
  EXPECT_DOUBLE_EQ(Layer(model, 1, false, RECOMPUTE_NONE), 32 * sbh + 2 * scores);
}

TEST(LayerActivationsTest, CustomRecomputeIsNoClosedForm) {
  const auto bytes =
      LayerActivationBytes(PaperModel("llama-7b"), Single(2048, 1, RECOMPUTE_CUSTOM));
  ASSERT_FALSE(bytes.ok());
  EXPECT_THAT(bytes.error().message, testing::HasSubstr("RECOMPUTE_CUSTOM"));
}

}  // namespace
}  // namespace twinstep
