// A plan changes time and memory, never the result: every schedule and option of the lowering, on
// up to 16 ranks, against the plain plan of the same model and batch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/graph/symbolic.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

constexpr std::int64_t kGlobalBatch = 8;

Plan BasePlan() {
  Plan plan;
  plan.set_micro_batch(1);
  plan.set_global_batch(kGlobalBatch);
  plan.set_sequence_length(64);
  return plan;
}

// What changes the arithmetic (attention kernel) is the plain plan's too.
Plan PlainOf(const Plan& plan) {
  Plan plain = BasePlan();
  plain.set_attention(plan.attention());
  plain.set_micro_batch(plan.micro_batch());
  return plain;
}

class Prover {
 public:
  // "equal", the proof's error, or "impossible: RULE" where the plan is none.
  std::string Prove(const Model& model, const Plan& plan, std::int64_t gpus) {
    const Result<ResolvedPlan> resolved = ResolvePlan(model, cluster_, plan, gpus);
    if (!resolved.ok()) return "impossible: " + resolved.error().rule;
    const Result<ResolvedPlan> plain = ResolvePlan(model, cluster_, PlainOf(plan), 1);
    if (!plain.ok()) return "plain plan: " + plain.error().message;
    const Result<TaskGraph> graph = Lower(model, cluster_, resolved.value(), {.fold = false});
    if (!graph.ok()) return "lowering: " + graph.error().message;
    const Result<TaskGraph> plain_graph = Lower(model, cluster_, plain.value(), {.fold = false});
    if (!plain_graph.ok()) return "plain lowering: " + plain_graph.error().message;
    const Status proof = ProveEqual(graph.value(), plain_graph.value());
    if (!proof.ok()) return proof.error().message;
    ++proved_;
    return "equal";
  }
  int proved() const { return proved_; }

 private:
  Cluster cluster_ = FindCluster("h800").value();
  int proved_ = 0;
};

TEST(SymbolicProofTest, PlanMatrix) {
  for (const MatrixCase& test_case : PlanMatrix()) {
    const TaskGraph graph = LowerOrDie(test_case.model, test_case.plan, false);
    const TaskGraph plain = LowerOrDie(test_case.model, PlainPlan(test_case), false);
    const Status proof = ProveEqual(graph, plain);
    EXPECT_TRUE(proof.ok()) << test_case.name << ": " << proof.error().message;
  }
}

struct Size {
  std::int64_t t, c, p, d;
  std::int64_t gpus() const { return t * c * p * d; }
};

std::string Label(const Plan& plan) { return plan.ShortDebugString(); }

Plan Sized(Plan plan, const Size& size) {
  plan.set_tensor_parallel(size.t);
  plan.set_context_parallel(size.c);
  plan.set_pipeline_parallel(size.p);
  plan.set_data_parallel(size.d);
  return plan;
}

std::vector<Size> Sizes(std::int64_t most_gpus) {
  std::vector<Size> sizes;
  for (const std::int64_t t : {1, 2, 4}) {
    for (const std::int64_t c : {1, 2, 4}) {
      for (const std::int64_t p : {1, 2, 4}) {
        for (const std::int64_t d : {1, 2, 4}) {
          if (t * c * p * d <= most_gpus) sizes.push_back({t, c, p, d});
        }
      }
    }
  }
  return sizes;
}

// Every parallel size with each value of one option, the others at their defaults.
void ProveAll(
    const std::string& model_name, const std::vector<std::function<void(Plan&)>>& options,
    const std::function<void(Model&)>& change = [](Model&) {}, std::int64_t most_gpus = 8) {
  Model model = FindModel(model_name).value();
  change(model);
  Prover prover;
  for (const Size& size : Sizes(most_gpus)) {
    for (const auto& option : options) {
      Plan plan = Sized(BasePlan(), size);
      option(plan);
      const std::string proof = prover.Prove(model, plan, size.gpus());
      if (proof.starts_with("impossible")) continue;
      ASSERT_EQ(proof, "equal") << model_name << " " << Label(plan);
    }
  }
  EXPECT_GT(prover.proved(), 10 * static_cast<int>(options.size()));
}

TEST(SymbolicProofTest, ParallelSizesOfEveryTinyModel) {
  for (const char* model :
       {"tiny-llama", "tiny-llama-gqa", "tiny-llama-tied", "tiny-gpt", "tiny-gpt-untied"}) {
    ProveAll(
        model, {[](Plan&) {}}, [](Model&) {}, 16);
  }
}

TEST(SymbolicProofTest, SequenceParallelismOnAndOff) {
  for (const char* model : {"tiny-llama", "tiny-gpt"}) {
    ProveAll(model, {[](Plan& plan) { plan.set_sequence_parallel(false); },
                     [](Plan& plan) { plan.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED); }});
  }
}

TEST(SymbolicProofTest, Schedules) {
  ProveAll("tiny-gpt", {[](Plan& plan) { plan.set_schedule(GPIPE); },
                        [](Plan& plan) { plan.set_schedule(ONE_F_ONE_B); },
                        [](Plan& plan) {
                          if (plan.pipeline_parallel() > 1) plan.set_layers_per_stage(1);
                        }});
}

TEST(SymbolicProofTest, ZeroStages) {
  std::vector<std::function<void(Plan&)>> options;
  for (const int stage : {0, 1, 2, 3}) {
    for (const bool overlap : {false, true}) {
      options.push_back([stage, overlap](Plan& plan) {
        plan.set_zero_stage(stage);
        plan.set_data_parallel_overlap(overlap);
      });
    }
  }
  for (const char* model : {"tiny-llama", "tiny-gpt"}) ProveAll(model, options);
}

TEST(SymbolicProofTest, RecomputeAndAttention) {
  std::vector<std::function<void(Plan&)>> options;
  for (const Recompute recompute : {RECOMPUTE_NONE, RECOMPUTE_BALANCED, RECOMPUTE_FULL}) {
    options.push_back([recompute](Plan& plan) { plan.set_recompute(recompute); });
  }
  for (const Recompute recompute : {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL}) {
    options.push_back([recompute](Plan& plan) {
      plan.set_attention(ATTENTION_UNFUSED);
      plan.set_recompute(recompute);
    });
  }
  for (const char* model : {"tiny-llama-gqa", "tiny-gpt"}) ProveAll(model, options);
}

TEST(SymbolicProofTest, DropoutAndClipping) {
  std::vector<std::function<void(Plan&)>> options;
  for (const AttentionKernel attention : {ATTENTION_FLASH, ATTENTION_UNFUSED}) {
    for (const Recompute recompute : {RECOMPUTE_NONE, RECOMPUTE_FULL}) {
      options.push_back([attention, recompute](Plan& plan) {
        plan.set_attention(attention);
        plan.set_recompute(recompute);
      });
    }
  }
  ProveAll("tiny-gpt", options, [](Model& model) {
    model.mutable_recipe()->set_hidden_dropout(0.1);
    model.mutable_recipe()->set_attention_dropout(0.1);
    model.mutable_recipe()->set_clip_norm(1.0);
  });
}

TEST(SymbolicProofTest, MixedPrecision) {
  ProveAll("tiny-llama", {[](Plan&) {}, [](Plan& plan) { plan.set_zero_stage(3); }},
           [](Model& model) {
             model.mutable_recipe()->set_precision(BF16);
             model.mutable_recipe()->set_clip_norm(1.0);
           });
}

TEST(SymbolicProofTest, Offload) {
  std::vector<std::function<void(Plan&)>> options;
  for (const double ratio : {0.5, 0.73}) {
    for (const Recompute recompute : {RECOMPUTE_NONE, RECOMPUTE_BALANCED}) {
      options.push_back([ratio, recompute](Plan& plan) {
        plan.set_offload_ratio(ratio);
        plan.set_recompute(recompute);
        if (plan.pipeline_parallel() > 1 && ratio != 0.5) plan.set_layers_per_stage(1);
      });
    }
  }
  for (const char* model : {"tiny-llama", "tiny-gpt"}) ProveAll(model, options);
}

TEST(SymbolicProofTest, RankOrders) {
  ProveAll("tiny-gpt", {[](Plan& plan) { plan.set_rank_order("dp-tp-pp-cp"); },
                        [](Plan& plan) { plan.set_rank_order("pp-cp-tp-dp"); }});
}

}  // namespace
}  // namespace twinstep
