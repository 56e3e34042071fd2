#include "exec/profile/probe_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "exec/cpu/cpu_backend.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::Each;
using testing::SizeIs;

constexpr std::uint32_t kCopies = 2;

// Computes, and says that the copies ran for 100 ns each, one after the other, and every other task
// for 10, from the begin on.
class ScriptedBackend : public CpuBackend {
 public:
  ScriptedBackend() : CpuBackend({.threads = 2}) {}

  TaskTime Time(TaskId task) const override {
    const auto at = static_cast<std::int64_t>(task);
    if (task < kCopies) return {100 * at, 100 * (at + 1)};
    return {10 * (at - kCopies), 10 * (at - kCopies + 1)};
  }
};

TEST(ProbeRuns, OfRestedTasksThoseCountThatEndInTimeAndBesideCopies) {
  const Model model = SmallModel("llama", FP32);
  const LoweredPlan layers =
      LowerForRun(model, SmallCluster(), ResolveOrDie(model, SmallPlan(1, 1, 1, 1))).value();
  const ProbeRuns runs(model, layers.plan, /*data=*/"",
                       {.make_backend = []() -> Result<std::unique_ptr<Backend>> {
                         return std::unique_ptr<Backend>(new ScriptedBackend());
                       }},
                       /*warm_up_s=*/0);
  ProbeGraph copies;
  copies.AddCopies(/*h2d=*/true, 1024, kCopies);
  const ProbeRuns::Beside beside{.layers = &layers, .first = std::move(copies).Finish()};
  const ClockOptions clocks{.long_rest_s = 0.001, .repeats = 2};
  const auto operators = [&](double boost_s) {
    Means means;
    EXPECT_TRUE(runs.MeasureBesideRested(beside, boost_s, clocks, &means).ok());
    std::set<Primitive> seen;
    for (const auto& [primitive, times] : means) {
      if (IsCopy(primitive.shape.op)) continue;
      seen.insert(primitive);
      EXPECT_THAT(times, SizeIs(2));  // One an iteration, the first left out.
      EXPECT_THAT(times, Each(testing::DoubleNear(10e-9, 1e-15)));
    }
    return seen;
  };
  const auto first = [&](TaskId tasks) {
    std::set<Primitive> primitives;
    for (TaskId id = 0; id < tasks; ++id) primitives.insert(*PrimitiveOf(layers.graph, id));
    return primitives;
  };
  ASSERT_GT(layers.graph.TaskCount(), 30u);
  EXPECT_EQ(operators(35e-9), first(3));
  // Copies end after 200.
  EXPECT_EQ(operators(1), first(20));
  EXPECT_THAT(operators(0), SizeIs(0));
}

// Says that copies to the GPU take 200 ns and those from it 100, side by side.
class SlowUpBackend : public CpuBackend {
 public:
  SlowUpBackend() : CpuBackend({.threads = 2}) {}

  TaskTime Time(TaskId task) const override {
    const auto at = static_cast<std::int64_t>(task);
    // The last of those up, which alone has no company, would be faster.
    if (at == kTimes - 1) return {200 * at, 200 * at + 50};
    if (at < kTimes) return {200 * at, 200 * (at + 1)};
    return {100 * (at - kTimes), 100 * (at - kTimes + 1)};
  }
  static constexpr int kTimes = 6;
};

TEST(ProbeRuns, OfTasksTogetherThoseCountThatRanWhileAllLanesDid) {
  const Model model = SmallModel("llama", FP32);
  const LoweredPlan layers =
      LowerForRun(model, SmallCluster(), ResolveOrDie(model, SmallPlan(1, 1, 1, 1))).value();
  const ProbeRuns runs(model, layers.plan, /*data=*/"",
                       {.make_backend = []() -> Result<std::unique_ptr<Backend>> {
                         return std::unique_ptr<Backend>(new SlowUpBackend());
                       }},
                       /*warm_up_s=*/0);
  ProbeGraph copies;
  copies.AddCopiesOf(0, /*h2d=*/true, 1024, SlowUpBackend::kTimes);
  copies.AddCopiesOf(0, /*h2d=*/false, 1024, SlowUpBackend::kTimes);
  Means means;
  ASSERT_TRUE(runs.MeasureTogether(std::move(copies), /*seconds=*/0, &means).ok());
  ASSERT_THAT(means, SizeIs(2));
  for (const auto& [primitive, times] : means) {
    const double expected_s = primitive.shape.op == OpCode::kCopyH2D ? 200e-9 : 100e-9;
    EXPECT_THAT(times, Each(testing::DoubleNear(expected_s, 1e-15)));
  }
}

}  // namespace
}  // namespace twinstep
