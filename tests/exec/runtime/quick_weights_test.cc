#include "exec/runtime/quick_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "exec/cpu/cpu_backend.h"
#include "exec/runtime/executor.h"
#include "sim/graph/arena.h"
#include "sim/graph/symbolic_tensors.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

class QuickWeights : public testing::Test {
 protected:
  QuickWeights()
      : model_(SmallModel("llama", FP32)),
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
