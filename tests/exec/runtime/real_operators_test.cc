// The executor with the real operators, small enough for sanitizers.

#include <gtest/gtest.h>

#include "tests/exec/runtime/allocation_count.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"
#include "tests/exec/runtime/varied_plans.h"

namespace twinstep {
namespace {

TEST(RealOperatorsTest, ThreadsAndPoisonChangeNothing) {
  for (const NamedPlan& plan : VariedPlans()) {
    const auto hash = [&plan](int threads, bool poison) {
      RunOptions options;
      options.backend.threads = threads;
      options.backend.poison = poison;
      TrainingRun run(SmallModel(plan.model, FP32), plan.plan, options);
      const Status done = run.Train(2);
      EXPECT_TRUE(done.ok()) << plan.name << ": " << done.error().message;
      return run.HashOfStates();
    };
    const std::uint64_t expected = hash(1, false);
    EXPECT_EQ(hash(3, false), expected) << plan.name;
    EXPECT_EQ(hash(2, true), expected) << plan.name;
  }
}

TEST(RealOperatorsTest, AllocateNothing) {
  for (const NamedPlan& plan : VariedPlans()) {
    TrainingRun run(SmallModel(plan.model, FP32), plan.plan, {});
    run.LoadStep();
    ASSERT_TRUE(run.RunOnly().ok());
    const std::int64_t before = AllocationCount();
    const bool done = run.RunOnly().ok();
    EXPECT_EQ(AllocationCount(), before) << plan.name;
    EXPECT_TRUE(done);
  }
}

}  // namespace
}  // namespace twinstep
