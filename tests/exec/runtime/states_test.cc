// Weights, data and checkpoints do not depend on the plan.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/runtime/batch.h"
#include "exec/runtime/initialize.h"
#include "exec/runtime/logical_tensors.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

std::vector<Plan> ShardingPlans() {
  std::vector<Plan> plans;
  for (const auto& [t, c, p, d] : std::vector<std::array<std::int64_t, 4>>{
           {2, 1, 1, 1}, {1, 2, 1, 2}, {2, 2, 2, 2}, {1, 1, 4, 1}}) {
    for (const int zero : {0, 1, 2, 3}) {
      plans.push_back(SmallPlan(t, c, p, d));
      plans.back().set_zero_stage(zero);
    }
  }
  return plans;
}

void ExpectEqual(const std::vector<LogicalTensor>& a, const std::vector<LogicalTensor>& b,
                 const std::string& label) {
  ASSERT_EQ(a.size(), b.size()) << label;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(Describe(a[i]), Describe(b[i])) << label;
    ASSERT_EQ(a[i].dtype, b[i].dtype) << label;
    ASSERT_EQ(std::pair(a[i].rows, a[i].columns), std::pair(b[i].rows, b[i].columns)) << label;
    ASSERT_EQ(a[i].data, b[i].data) << label << ": " << Describe(a[i]);
  }
}

TEST(InitializeTest, EveryPlanStartsFromTheSameWeights) {
  for (const std::string& name : SmallModelNames()) {
    for (const Precision precision : {FP32, BF16}) {
      const Model model = SmallModel(name, precision);
      const TrainingRun plain(model, SmallPlan(1, 1, 1, 1), {});
      const std::vector<LogicalTensor> expected = plain.Gather();
      for (const Plan& plan : ShardingPlans()) {
        const TrainingRun run(model, plan, {});
        ExpectEqual(run.Gather(), expected, name + " " + plan.ShortDebugString());
      }
    }
  }
}

std::map<std::string, LogicalTensor> ByName(std::vector<LogicalTensor> tensors) {
  std::map<std::string, LogicalTensor> result;
  for (LogicalTensor& tensor : tensors) {
    const std::string name = Describe(tensor);
    result.emplace(name, std::move(tensor));
  }
  return result;
}

double Deviation(const LogicalTensor& tensor) {
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.rows * tensor.columns; ++i) {
    sum += tensor.At(i) * tensor.At(i);
  }
  return std::sqrt(sum / static_cast<double>(tensor.rows * tensor.columns));
}

TEST(InitializeTest, DistributionsAreTheDocumentedOnes) {
  Model model = SmallModel("gpt-untied", BF16);
  model.set_hidden_size(128);
  const TrainingRun run(model, SmallPlan(1, 1, 1, 1), {});
  const auto tensors = ByName(run.Gather());
  // 13 tensors a layer less the moments: shapes of GPT's layer.
  const LogicalTensor& qkv = tensors.at("master of qkv_weight of block 2");
  EXPECT_EQ(std::pair(qkv.rows, qkv.columns), std::pair(std::int64_t{384}, std::int64_t{128}));
  EXPECT_EQ(qkv.dtype, Dtype::kFp32);
  // The standard error of a deviation over n numbers is 1 / sqrt(2 n).
  EXPECT_NEAR(Deviation(qkv), 0.02, 0.02 * 4 / std::sqrt(2.0 * 384 * 128));
  const LogicalTensor& down = tensors.at("master of down_weight of block 0");
  const double residual = 0.02 / std::sqrt(2.0 * 4);
  EXPECT_NEAR(Deviation(down), residual, residual * 4 / std::sqrt(2.0 * 48 * 128));
  double mean = 0;
  for (std::int64_t i = 0; i < 384 * 128; ++i) mean += qkv.At(i) / (384 * 128);
  EXPECT_NEAR(mean, 0, 0.02 * 4 / std::sqrt(384.0 * 128));
  const LogicalTensor& head = tensors.at("master of head_weight");
  EXPECT_EQ(head.rows, 61);
  for (std::int64_t i = 0; i < 128; ++i) {
    ASSERT_EQ(tensors.at("parameter of norm1_weight of block 1").At(i), 1);
    ASSERT_EQ(tensors.at("parameter of norm2_bias of block 1").At(i), 0);
    ASSERT_EQ(tensors.at("first moment of out_bias of block 3").At(i), 0);
  }
  // Parameters are the rounded masters.
  const LogicalTensor& parameter = tensors.at("parameter of qkv_weight of block 2");
  EXPECT_EQ(parameter.dtype, Dtype::kBf16);
  for (std::int64_t i = 0; i < 384 * 128; ++i) {
    ASSERT_LE(std::fabs(parameter.At(i) - qkv.At(i)), std::fabs(qkv.At(i)) / 256);
  }
}

TEST(InitializeTest, TensorsAndSeedsDiffer) {
  const Model model = SmallModel("llama", FP32);
  const auto one = ByName(TrainingRun(model, SmallPlan(1, 1, 1, 1), {.seed = 1}).Gather());
  const auto two = ByName(TrainingRun(model, SmallPlan(1, 1, 1, 1), {.seed = 2}).Gather());
  std::set<double> values;
  std::size_t drawn = 0;
  for (const char* name :
       {"parameter of out_weight of block 0", "parameter of out_weight of block 1",
        "parameter of qkv_weight of block 0", "parameter of token_embedding",
        "parameter of head_weight"}) {
    for (const auto* tensors : {&one, &two}) {
      const LogicalTensor& tensor = tensors->at(name);
      for (std::int64_t i = 0; i < 1000; ++i, ++drawn) values.insert(tensor.At(i));
    }
  }
  // Some fp32 numbers come twice by chance.
  EXPECT_GT(values.size(), drawn - 100);
}

TEST(InitializeTest, Fp64StartsFromTheSameNumbersAsFp32) {
  const TrainingRun fp32(SmallModel("gpt", FP32), SmallPlan(1, 1, 1, 1), {});
  const TrainingRun fp64(SmallModel("gpt", FP64), SmallPlan(1, 1, 1, 1), {});
  const auto a = fp32.Gather();
  const auto b = fp64.Gather();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::int64_t k = 0; k < a[i].rows * a[i].columns; ++k) ASSERT_EQ(a[i].At(k), b[i].At(k));
  }
}

TEST(LogicalTensorsTest, RowsOfQkvAndGatedMlpAreInTheirOrder) {
  // A rank's rows are q, k, v of its heads, and gate and up of its features; logical rows are not.
  const Model model = SmallModel("llama-gqa", FP32);
  TrainingRun run(model, SmallPlan(2, 1, 1, 1), {});
  const TaskGraph& graph = run.graph();
  for (const TensorInfo& tensor : graph.tensors) {
    if (tensor.state != StateKind::kParameter || tensor.block != 0) continue;
    if (tensor.kind != TensorKind::kQkvWeight && tensor.kind != TensorKind::kUpWeight) continue;
    std::vector<float> rows;
    for (std::int64_t row = 0; row < tensor.rows; ++row) {
      for (std::int64_t k = 0; k < tensor.columns; ++k) {
        rows.push_back(static_cast<float>(1000 * tensor.axis_index + row));
      }
    }
    run.backend().Write(tensor.buffer, tensor.slice.offset, std::as_bytes(std::span(rows)));
  }
  const auto tensors = ByName(run.Gather());
  const auto row = [&tensors](const std::string& name, std::int64_t r) {
    return tensors.at("parameter of " + name + " of block 0").At(r * 32);
  };
  // 4 heads and 2 key-value heads of 8: on each rank 16 q, 8 k and 8 v rows.
  EXPECT_EQ(row("qkv_weight", 0), 0);
  EXPECT_EQ(row("qkv_weight", 15), 15);
  EXPECT_EQ(row("qkv_weight", 16), 1000);
  EXPECT_EQ(row("qkv_weight", 32), 16);
  EXPECT_EQ(row("qkv_weight", 40), 1016);
  EXPECT_EQ(row("qkv_weight", 48), 24);
  EXPECT_EQ(row("qkv_weight", 63), 1031);
  // 48 features: on each rank 24 gate rows, then 24 up rows.
  EXPECT_EQ(row("up_weight", 23), 23);
  EXPECT_EQ(row("up_weight", 24), 1000);
  EXPECT_EQ(row("up_weight", 48), 24);
  EXPECT_EQ(row("up_weight", 95), 1047);
}

TEST(LogicalTensorsTest, ScatterRestoresWhatWasGathered) {
  for (const std::string& name : SmallModelNames()) {
    const Model model = SmallModel(name, BF16);
    const std::vector<LogicalTensor> saved =
        TrainingRun(model, SmallPlan(2, 1, 2, 2), {.seed = 7}).Gather();
    for (const Plan& plan : ShardingPlans()) {
      TrainingRun run(model, plan, {.seed = 8});
      const Status restored = ScatterLogical(model, run.graph(), saved, &run.backend());
      ASSERT_TRUE(restored.ok()) << restored.error().message;
      ExpectEqual(run.Gather(), saved, name + " " + plan.ShortDebugString());
    }
  }
}

TEST(LogicalTensorsTest, ScatterNamesWhatDoesNotFit) {
  const Model model = SmallModel("llama", FP32);
  TrainingRun run(model, SmallPlan(1, 1, 1, 1), {});
  const std::vector<LogicalTensor> saved = run.Gather();
  std::vector<LogicalTensor> bad = saved;
  std::erase_if(bad, [](const LogicalTensor& tensor) {
    return tensor.kind == TensorKind::kOutWeight && tensor.block == 1 &&
           tensor.state == StateKind::kMoment2;
  });
  Status restored = ScatterLogical(model, run.graph(), bad, &run.backend());
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.error().message, "the second moment of out_weight of block 1 is missing");
  bad = saved;
  bad[0].rows += 1;
  restored = ScatterLogical(model, run.graph(), bad, &run.backend());
  ASSERT_FALSE(restored.ok());
  EXPECT_THAT(restored.error().message, HasSubstr("is 2 x 32 fp32"));
  bad = saved;
  bad[0].data.pop_back();
  EXPECT_FALSE(ScatterLogical(model, run.graph(), bad, &run.backend()).ok());
  ExpectEqual(run.Gather(), saved, "untouched");
}

TEST(LogicalTensorsTest, GatherNamesReplicasThatDiffer) {
  const Model model = SmallModel("llama", FP32);
  Plan plan = SmallPlan(1, 1, 1, 2);
  plan.set_zero_stage(0);
  TrainingRun run(model, plan, {});
  for (const TensorInfo& tensor : run.graph().tensors) {
    if (tensor.kind != TensorKind::kDownWeight || tensor.state != StateKind::kParameter ||
        tensor.block != 2 || run.graph().buffers[tensor.buffer].rank != 1) {
      continue;
    }
    const float other = 5;
    run.backend().Write(tensor.buffer, tensor.slice.offset + 4 * 50,
                        std::as_bytes(std::span(&other, 1)));
  }
  const auto gathered = GatherLogical(model, run.graph(), run.backend());
  ASSERT_FALSE(gathered.ok());
  EXPECT_EQ(gathered.error().rule, "replicas");
  EXPECT_THAT(gathered.error().message,
              HasSubstr("the parameter of down_weight of block 2 differs between ranks 0 and 1 at "
                        "row 1, column 2"));
}

TEST(BatchTest, PiecesOfTheSequenceGoToContextParallelRanks) {
  const Model model = SmallModel("llama", FP32);
  Plan plan = SmallPlan(1, 2, 1, 2);
  plan.set_micro_batch(2);
  TrainingRun run(model, plan, {});
  // Token = 100 sample + position.
  std::vector<std::int32_t> tokens, labels;
  for (std::int32_t sample = 0; sample < 8; ++sample) {
    for (std::int32_t position = 0; position < 16; ++position) {
      tokens.push_back(100 * sample + position);
      labels.push_back(-100 * sample - position);
    }
  }
  ASSERT_TRUE(LoadBatch(run.graph(), 16, tokens, labels, &run.backend()).ok());
  int checked = 0;
  for (const TensorInfo& tensor : run.graph().tensors) {
    const bool label = tensor.kind == TensorKind::kLabels;
    if (tensor.kind != TensorKind::kTokens && !label) continue;
    ASSERT_EQ(tensor.rows, 16);
    std::vector<std::int32_t> local(16);
    run.backend().Read(tensor.buffer, 0, std::as_writable_bytes(std::span(local)));
    const RankInfo& rank = run.graph().ranks[run.graph().buffers[tensor.buffer].rank];
    // Positions 0-3 and 12-15 on the first rank, 4-11 on the second; two samples side by side.
    const auto sample = static_cast<std::int32_t>(2 * tensor.micro_batch);
    EXPECT_EQ(tensor.micro_batch / 2, rank.dp);
    for (std::int32_t i = 0; i < 16; ++i) {
      const std::int32_t position = rank.cp == 1 ? 4 + i / 2 : i / 2 < 4 ? i / 2 : 8 + i / 2;
      const std::int32_t expected = 100 * (sample + i % 2) + position;
      ASSERT_EQ(local[static_cast<std::size_t>(i)], label ? -expected : expected);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 2 * 2 * 2 * 16 * 2);
  tokens.pop_back();
  const Status refused = LoadBatch(run.graph(), 16, tokens, labels, &run.backend());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "the batch has 127 tokens, the plan reads at least 128");
}

}  // namespace
}  // namespace twinstep
