// Ranks on two GPUs: their plans train as the plain plan does on one, and as they do themselves
// where all ranks share one.

#include <gtest/gtest.h>

#include <string>

#include "tests/exec/cuda/gpu_training.h"
#include "tests/exec/cuda/has_gpu.h"
#include "tests/exec/cuda/two_gpu_plans.h"
#include "tests/exec/runtime/small_models.h"

namespace twinstep {
namespace {

constexpr int kSteps = 5;

// Sums in another order: sharp in fp64.
void ExpectPlansToTrainAsThePlainPlan(CudaOptions options) {
  for (const char* name : {"llama-gqa", "gpt"}) {
    const Model model = SmallModel(name, FP64);
    const Trained plain = Train(model, SmallPlan(1, 1, 1, 1), OnGpu({}), kSteps);
    for (const PlanCase& test_case : TwoGpuPlans()) {
      SCOPED_TRACE(std::string(name) + ", " + test_case.label);
      const Plan plan = PlanOf(test_case, SmallPlan(1, 1, 1, 1), 96 << 10);
      for (const bool late_lanes : LateLanesOf(plan)) {
        options.late_lanes = late_lanes;
        const Trained trained = Train(model, plan, OnGpu(options), kSteps);
        EXPECT_LE(LargestDifference(trained.losses, plain.losses), 1e-9) << late_lanes;
      }
    }
  }
}

TEST(TwoGpusTest, PlansTrainAsThePlainPlan) {
  if (GpuCount() < 2) GTEST_SKIP() << "no two GPUs";
  ExpectPlansToTrainAsThePlainPlan({});
}

TEST(TwoGpusTest, PlansTrainAsThePlainPlanByNccl) {
  if (GpuCount() < 2) GTEST_SKIP() << "no two GPUs";
  ExpectPlansToTrainAsThePlainPlan({.peer_memory = false});
}

TEST(TwoGpusTest, PlansTrainAsThePlainPlanInBf16) {
  if (GpuCount() < 2) GTEST_SKIP() << "no two GPUs";
  const Model model = LongModel("llama-gqa");
  const Trained plain = Train(model, LongPlan(1), OnGpu({}), kSteps);
  for (const PlanCase& test_case : TwoGpuPlans()) {
    SCOPED_TRACE(test_case.label);
    const Plan plan = PlanOf(test_case, LongPlan(1), 64 << 10);
    for (const bool late_lanes : LateLanesOf(plan)) {
      const Trained trained = Train(model, plan, OnGpu({.late_lanes = late_lanes}), kSteps);
      EXPECT_LE(LargestDifference(trained.losses, plain.losses), 1e-2) << late_lanes;
    }
  }
}

// Where a rank runs changes no bit.
TEST(TwoGpusTest, DeterministicPlansGiveTheBitsOfOneGpu) {
  if (GpuCount() < 2) GTEST_SKIP() << "no two GPUs";
  const Model model = LongModel("llama-gqa");
  for (const PlanCase& test_case : TwoGpuPlans()) {
    SCOPED_TRACE(test_case.label);
    const Plan plan = PlanOf(test_case, LongPlan(1), 64 << 10);
    const Trained shared = Train(model, plan, OnGpu({.gpus = 1, .deterministic = true}), kSteps);
    for (const bool late_lanes : LateLanesOf(plan)) {
      const CudaOptions options{.deterministic = true, .late_lanes = late_lanes};
      EXPECT_EQ(Different(Train(model, plan, OnGpu(options), kSteps), shared), "") << late_lanes;
    }
  }
}

TEST(TwoGpusTest, SeveralRanksShareAGpu) {
  if (GpuCount() < 2) GTEST_SKIP() << "no two GPUs";
  const Model model = SmallModel("llama", FP64);
  const Trained plain = Train(model, SmallPlan(1, 1, 1, 1), OnGpu({}), kSteps);
  for (const bool late_lanes : {false, true}) {
    const Trained all =
        Train(model, SmallPlan(2, 2, 2, 2), OnGpu({.late_lanes = late_lanes}), kSteps);
    EXPECT_LE(LargestDifference(all.losses, plain.losses), 1e-9) << late_lanes;
  }
}

}  // namespace
}  // namespace twinstep
