#include "exec/runtime/quick_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "exec/cpu/cpu_backend.h"
#include "exec/runtime/element_io.h"
#include "exec/runtime/executor.h"
#include "sim/graph/arena.h"
#include "sim/graph/symbolic_tensors.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

class QuickWeights : public testing::Test {
 protected:
  explicit QuickWeights(Precision precision = FP32)
      : model_(SmallModel("llama", precision)),
        plan_(ResolveOrDie(model_, SmallPlan(1, 1, 1, 1))),
        graph_(LowerOrDie(model_, plan_)),
        arena_(PlanArena(graph_)),
        backend_({.threads = 1}) {
    executor_ = Executor::Create(graph_, arena_, plan_, &backend_, {}).value();
  }

  std::vector<float> Numbers(BufferId buffer, std::int64_t offset, std::int64_t size) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    backend_.Read(buffer, offset, bytes);
    std::vector<float> numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }

  const Model model_;
  const ResolvedPlan plan_;
  const TaskGraph graph_;
  const ArenaPlan arena_;
  CpuBackend backend_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(QuickWeights, NormsAreOneAndOthersSmall) {
  WriteQuickWeights(graph_, &backend_);
  int norms = 0, others = 0;
  const std::vector<TensorPlace> places = PlaceTensors(graph_);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const TensorInfo& tensor = graph_.tensors[i];
    if (tensor.state != StateKind::kParameter) continue;
    double squares = 0;
    const std::vector<float> numbers = Numbers(tensor.buffer, places[i].offset, places[i].bytes);
    for (const float x : numbers) squares += static_cast<double>(x * x);
    const double mean = squares / static_cast<double>(numbers.size());
    const bool is_norm = tensor.kind == TensorKind::kFinalNormWeight;
    const bool is_product = tensor.kind == TensorKind::kTokenEmbedding;
    if (is_norm) {
      EXPECT_EQ(mean, 1);
    } else if (is_product) {
      EXPECT_NEAR(std::sqrt(mean), 0.02, 0.004);
    }
    norms += is_norm ? 1 : 0;
    others += is_product ? 1 : 0;
  }
  EXPECT_GT(norms, 0);
  EXPECT_GT(others, 0);
}

TEST_F(QuickWeights, NoTwoLayersOrRowsAreAlike) {
  WriteQuickWeights(graph_, &backend_);
  const std::vector<TensorPlace> places = PlaceTensors(graph_);
  std::set<std::vector<float>> rows;
  std::size_t count = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const TensorInfo& tensor = graph_.tensors[i];
    const auto columns = static_cast<std::size_t>(tensor.columns);
    if (tensor.state != StateKind::kParameter || tensor.rows < 2 || columns < 2) continue;
    const std::vector<float> numbers = Numbers(tensor.buffer, places[i].offset, places[i].bytes);
    for (std::size_t at = 0; at + columns <= numbers.size(); at += columns, ++count) {
      rows.emplace(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                   numbers.begin() + static_cast<std::ptrdiff_t>(at + columns));
    }
  }
  EXPECT_GT(count, 100U);
  EXPECT_EQ(rows.size(), count);
}

class QuickWeightsInBf16 : public QuickWeights {
 public:
  QuickWeightsInBf16() : QuickWeights(BF16) {}
};

TEST_F(QuickWeightsInBf16, ParametersAreTheirMastersRounded) {
  WriteQuickWeights(graph_, &backend_);
  const std::vector<TensorPlace> places = PlaceTensors(graph_);
  int compared = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const TensorInfo& master = graph_.tensors[i];
    if (master.state != StateKind::kMaster) continue;
    const std::vector<float> numbers = Numbers(master.buffer, places[i].offset, places[i].bytes);
    std::vector<std::byte> rounded(numbers.size() * 2);
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      StoreElement(Dtype::kBf16, static_cast<double>(numbers[k]), rounded.data(),
                   static_cast<std::int64_t>(k));
    }
    for (std::size_t k = 0; k < places.size(); ++k) {
      const TensorInfo& parameter = graph_.tensors[k];
      if (parameter.state != StateKind::kParameter || parameter.kind != master.kind ||
          parameter.block != master.block) {
        continue;
      }
      std::vector<std::byte> bytes(static_cast<std::size_t>(places[k].bytes));
      backend_.Read(parameter.buffer, places[k].offset, bytes);
      EXPECT_EQ(bytes, rounded);
      ++compared;
    }
  }
  EXPECT_GT(compared, 5);
}

TEST_F(QuickWeights, BlocksRepeatUpToTheLastByte) {
  BufferId buffer = 0;
  while (graph_.buffers[buffer].bytes < 40) ++buffer;
  const std::vector<float> block = {1, 2, 3};
  const std::vector<float> before = Numbers(buffer, 0, 40);
  backend_.WriteRepeated(buffer, 4, 32, std::as_bytes(std::span(block)));
  std::vector<float> expected = before;
  for (std::size_t i = 0; i < 8; ++i) expected[1 + i] = block[i % 3];
  EXPECT_EQ(Numbers(buffer, 0, 40), expected);
}

}  // namespace
}  // namespace twinstep
