// A plan changes time and memory, never the result: real training by every kind of plan.
//
// Two classes. Plans that only schedule or place differently give the same bits: each is compared
// with its base plan, which has the same tensor-, context- and data-parallel sizes, one stage and
// no options. Plans that reorder sums stay within a tolerance of the plain plan (one rank).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& model : SmallModelNames()) {
    const auto add = [&](
                         const std::string& label, std::int64_t t, std::int64_t c, std::int64_t p,
                         std::int64_t d, const std::function<void(Plan&)>& edit = [](Plan&) {}) {
      cases.push_back({model, label, Edited(SmallPlan(t, c, p, d), edit)});
    };
    add("data", 1, 1, 1, 2);
    add("tensor", 2, 1, 1, 1);
    add("context", 1, 2, 1, 1);
    add("pipeline", 1, 1, 4, 1);
    add("gpipe", 1, 1, 2, 1, [](Plan& plan) { plan.set_schedule(GPIPE); });
    add("all, 16 ranks", 2, 2, 2, 2);
    add("interleaved", 1, 1, 2, 2, [](Plan& plan) { plan.set_virtual_stages(2); });
    add("zero 0", 1, 2, 2, 2, [](Plan& plan) { plan.set_zero_stage(0); });
    add("zero 2", 2, 1, 2, 2, [](Plan& plan) {
      plan.set_zero_stage(2);
      plan.set_data_parallel_overlap(true);
    });
    add("zero 3", 1, 2, 1, 2, [](Plan& plan) { plan.set_zero_stage(3); });
    add("zero 3 in stages", 1, 1, 2, 2, [](Plan& plan) {
      plan.set_zero_stage(3);
      plan.set_virtual_stages(2);
    });
    add("no sequence parallelism", 2, 1, 2, 1,
        [](Plan& plan) { plan.set_sequence_parallel(false); });
    add("chunked tensor overlap", 2, 1, 1, 2,
        [](Plan& plan) { plan.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED); });
    add("balanced recompute, offload", 2, 1, 2, 1, [](Plan& plan) {
      plan.set_recompute(RECOMPUTE_BALANCED);
      plan.set_virtual_stages(2);
      plan.set_offload_ratio(0.5);
    });
    add("full recompute", 1, 2, 2, 1, [](Plan& plan) { plan.set_recompute(RECOMPUTE_FULL); });
    add("full offload", 1, 1, 4, 2, [](Plan& plan) { plan.set_offload_ratio(1.0); });
    add("unfused attention, selective", 2, 2, 1, 1, [](Plan& plan) {
      plan.set_attention(ATTENTION_UNFUSED);
      plan.set_recompute(RECOMPUTE_SELECTIVE);
    });
    add("micro-batches of two", 1, 1, 2, 2, [](Plan& plan) { plan.set_micro_batch(2); });
  }
  for (const char* model : {"llama", "gpt-untied"}) {
    cases.push_back({model, "tensor 4", SmallPlan(4, 1, 1, 1)});
    cases.push_back({model, "tensor 4, chunked", Edited(SmallPlan(4, 1, 2, 1), [](Plan& plan) {
                       plan.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
                     })});
    cases.push_back({model, "context 4", SmallPlan(1, 4, 2, 1)});
    cases.push_back({model, "data 4, zero 3",
                     Edited(SmallPlan(1, 1, 2, 4), [](Plan& plan) { plan.set_zero_stage(3); })});
    cases.push_back({model, "rank order", Edited(SmallPlan(2, 1, 2, 2), [](Plan& plan) {
                       plan.set_rank_order("pp-dp-cp-tp");
                     })});
  }
  for (const double ratio : {0.1, 0.37, 0.8}) {
    for (const char* model : {"llama", "gpt-untied"}) {
      cases.push_back({model, "offload", Edited(SmallPlan(1, 1, 4, 1), [ratio](Plan& plan) {
                         plan.set_offload_ratio(ratio);
                       })});
      cases.push_back({model, "offload, interleaved, full recompute",
                       Edited(SmallPlan(1, 2, 2, 1), [ratio](Plan& plan) {
                         plan.set_offload_ratio(ratio);
                         plan.set_virtual_stages(2);
                         plan.set_recompute(RECOMPUTE_FULL);
                       })});
    }
  }
  cases.push_back({"llama", "custom recompute", Edited(SmallPlan(2, 1, 2, 1), [](Plan& plan) {
                     plan.set_recompute(RECOMPUTE_CUSTOM);
                     for (const char* name : {"kv", "residual", "attention_out"}) {
                       plan.add_stored_tensors(name);
                     }
                   })});
  return cases;
}

// One rank; what changes the operators (attention kernel) stays.
Plan PlainOf(const Plan& plan) {
  Plan plain = SmallPlan(1, 1, 1, 1);
  plain.set_attention(plan.attention());
  return plain;
}

// Same sums in the same order, without stages and options.
Plan BaseOf(const Plan& plan) {
  Plan base = SmallPlan(plan.tensor_parallel(), plan.context_parallel(), 1, plan.data_parallel());
  base.set_attention(plan.attention());
  base.set_micro_batch(plan.micro_batch());
  if (plan.has_sequence_parallel()) base.set_sequence_parallel(plan.sequence_parallel());
  base.set_tensor_parallel_overlap(plan.tensor_parallel_overlap());
  // ZeRO 2 and 3 sum each micro-batch over ranks before they sum micro-batches.
  base.set_zero_stage(plan.has_zero_stage() && plan.zero_stage() >= 2 ? 2 : 1);
  return base;
}

// Tied embeddings on several stages get their gradient in two sums instead of one.
bool HasBase(const Case& test_case, const Model& model) {
  return !(model.tied_embeddings() && test_case.plan.pipeline_parallel() > 1);
}

TEST(PlanEqualityTest, EveryPlanTrainsAsThePlainOne) {
  PlanTrainer trainer(FP64);
  const std::vector<Case> cases = Cases();
  EXPECT_GE(cases.size(), 60u);
  int bit_equal = 0;
  for (const Case& test_case : cases) {
    const std::string label =
        test_case.model + " " + test_case.label + " {" + test_case.plan.ShortDebugString() + "}";
    const Trained& trained = trainer.Train(test_case.model, test_case.plan);
    const Trained& plain = trainer.Train(test_case.model, PlainOf(test_case.plan));
    EXPECT_EQ(Fp64Difference(trained, plain), "") << label;
    if (!HasBase(test_case, trainer.ModelOf(test_case.model))) continue;
    ++bit_equal;
    EXPECT_EQ(BitDifference(trained, trainer.Train(test_case.model, BaseOf(test_case.plan))), "")
        << label;
  }
  EXPECT_GE(bit_equal, 60);
}

// What is compared above is not vacuous: training starts from ln V and moves every weight.
TEST(PlanEqualityTest, TrainingChangesWeightsAndLoss) {
  PlanTrainer trainer(FP64);
  for (const std::string& name : SmallModelNames()) {
    const Trained& trained = trainer.Train(name, SmallPlan(1, 1, 1, 1));
    const TrainingRun untrained(trainer.ModelOf(name), SmallPlan(1, 1, 1, 1), {});
    EXPECT_NEAR(trained.losses[0], std::log(61.0), 0.1) << name;
    const std::vector<LogicalTensor> before = untrained.Gather();
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_NE(before[i].data, trained.tensors[i].data) << name << " " << Describe(before[i]);
    }
  }
}

// A model's clipping and dropout do something.
TEST(PlanEqualityTest, RecipesMatter) {
  const auto loss_after = [](Model model, double clip_norm, double dropout) {
    model.mutable_recipe()->set_clip_norm(clip_norm);
    model.mutable_recipe()->set_hidden_dropout(dropout);
    TrainingRun run(model, SmallPlan(1, 1, 1, 1), {});
    EXPECT_TRUE(run.Train(kTrainedSteps).ok());
    return run.losses().back();
  };
  const Model model = SmallModel("llama-gqa", FP64);
  const double loss = loss_after(model, 0.5, 0);
  EXPECT_NE(loss, loss_after(model, 1e9, 0));
  EXPECT_EQ(loss_after(model, 0, 0), loss_after(model, 1e9, 0));
  EXPECT_GT(std::fabs(loss - loss_after(model, 0.5, 0.1)), 1e-6);
}

// Gradients as narrow as the parameters; fp16.
TEST(PlanEqualityTest, NarrowRecipesGiveTheSameBits) {
  for (const Precision precision : {BF16, FP16}) {
    Model model = SmallModel("gpt-untied", precision);
    model.mutable_recipe()->set_gradient_precision(PARAMETER_GRADIENT);
    model.mutable_recipe()->set_clip_norm(0.5);
    const auto hash = [&model](const Plan& plan) {
      TrainingRun run(model, plan, {});
      EXPECT_TRUE(run.Train(kTrainedSteps).ok());
      EXPECT_TRUE(std::isfinite(run.losses().back()));
      std::vector<std::vector<std::byte>> data;
      for (LogicalTensor& tensor : run.Gather()) data.push_back(std::move(tensor.data));
      return std::pair(run.losses(), data);
    };
    const auto expected = hash(SmallPlan(1, 1, 1, 2));
    for (const int zero : {0, 1}) {
      EXPECT_EQ(hash(Edited(SmallPlan(1, 1, 2, 2),
                            [zero](Plan& plan) {
                              plan.set_zero_stage(zero);
                              plan.set_virtual_stages(2);
                              plan.set_offload_ratio(0.4);
                              plan.set_recompute(RECOMPUTE_BALANCED);
                            })),
                expected);
    }
  }
}

TEST(PlanEqualityTest, PoisonModeFindsNothing) {
  PlanTrainer trainer(FP32), poisoned(FP32);
  for (const Case& test_case : Cases()) {
    const Trained& expected = trainer.Train(test_case.model, test_case.plan);
    const Trained& trained = poisoned.Train(test_case.model, test_case.plan, true);
    EXPECT_EQ(BitDifference(trained, expected), "") << test_case.model << " " << test_case.label;
  }
}

double Norm(const LogicalTensor& tensor) {
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.rows * tensor.columns; ++i) {
    sum += tensor.At(i) * tensor.At(i);
  }
  return std::sqrt(sum);
}

std::string Fp32Difference(const Trained& plan, const Trained& plain) {
  for (std::size_t k = 0; k < plain.tensors.size(); ++k) {
    const LogicalTensor& a = plan.tensors[k];
    const LogicalTensor& b = plain.tensors[k];
    if (a.state != StateKind::kParameter) continue;
    double squares = 0;
    for (std::int64_t i = 0; i < b.rows * b.columns; ++i) {
      // The key bias has no gradient but rounding errors, which Adam makes steps of.
      const double difference = a.At(i) - b.At(i);
      if (b.kind == TensorKind::kQkvBias) {
        if (std::fabs(difference) > 2 * kLearningRate * kTrainedSteps) return Describe(b);
      } else {
        squares += difference * difference;
      }
    }
    if (!(std::sqrt(squares) <= 1e-5 * Norm(b) + 1e-5 * kLearningRate * kTrainedSteps)) {
      return Describe(b) + ": off by " + testing::PrintToString(std::sqrt(squares) / Norm(b));
    }
  }
  return "";
}

TEST(PlanEqualityTest, Fp32StaysNormWiseClose) {
  PlanTrainer trainer(FP32);
  int i = 0;
  for (const Case& test_case : Cases()) {
    if (++i % 4 != 1) continue;
    const Trained& trained = trainer.Train(test_case.model, test_case.plan);
    const Trained& plain = trainer.Train(test_case.model, PlainOf(test_case.plan));
    EXPECT_EQ(Fp32Difference(trained, plain), "") << test_case.model << " " << test_case.label;
  }
}

TEST(PlanEqualityTest, Bf16LossStaysClose) {
  PlanTrainer trainer(BF16);
  int i = 0;
  for (const Case& test_case : Cases()) {
    if (++i % 4 != 2) continue;
    const Trained& trained = trainer.Train(test_case.model, test_case.plan);
    const Trained& plain = trainer.Train(test_case.model, PlainOf(test_case.plan));
    for (int step = 0; step < kTrainedSteps; ++step) {
      const auto k = static_cast<std::size_t>(step);
      EXPECT_NEAR(trained.losses[k], plain.losses[k], 1e-2 * plain.losses[k])
          << test_case.model << " " << test_case.label;
    }
    if (!HasBase(test_case, trainer.ModelOf(test_case.model))) continue;
    EXPECT_EQ(BitDifference(trained, trainer.Train(test_case.model, BaseOf(test_case.plan))), "")
        << test_case.model << " " << test_case.label;
  }
}

// 200 dispatch orders, the operators real.
TEST(PlanEqualityTest, ShuffledDispatchGivesTheSameBits) {
  const Plan plan = Edited(SmallPlan(2, 1, 2, 1), [](Plan& edited) {
    edited.set_virtual_stages(2);
    edited.set_offload_ratio(0.5);
  });
  const auto hash = [&plan](std::optional<std::uint64_t> seed, int threads) {
    RunOptions options{.executor = {.shuffle_seed = seed, .verify = !seed.has_value()}};
    options.backend.threads = threads;
    TrainingRun run(SmallModel("llama-gqa", FP32), plan, options);
    EXPECT_TRUE(run.Train(1).ok());
    return run.HashOfStates();
  };
  const std::uint64_t expected = hash(std::nullopt, 1);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    ASSERT_EQ(hash(seed, seed % 2 == 0 ? 1 : 3), expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace twinstep
