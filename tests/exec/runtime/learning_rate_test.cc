#include "exec/runtime/learning_rate.h"

#include <gtest/gtest.h>

namespace twinstep {
namespace {

TEST(LearningRate, WarmsUpInALine) {
  const LearningRateSchedule schedule{
      .peak = 8e-3, .minimum = 1e-3, .warmup_steps = 4, .steps = 100};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 2e-3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1), 4e-3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2), 6e-3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 3), 8e-3);
}

TEST(LearningRate, DescendsByHalfACosine) {
  // From the peak in step 3 to the minimum in step 9: step 6 is halfway, step 5 at a third.
  const LearningRateSchedule schedule{.peak = 5, .minimum = 1, .warmup_steps = 4, .steps = 10};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 6), 3);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 5), 4);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 7), 2);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 9), 1);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 10), 1);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1'000'000), 1);
}

TEST(LearningRate, WithoutWarmupBeginsAtThePeak) {
  const LearningRateSchedule schedule{.peak = 2, .minimum = 0, .warmup_steps = 0, .steps = 5};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 2);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2), 1);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 4), 0);
}

TEST(LearningRate, OfATrainingThatIsOnlyWarmup) {
  const LearningRateSchedule one{.peak = 2, .minimum = 1, .warmup_steps = 0, .steps = 1};
  EXPECT_DOUBLE_EQ(LearningRate(one, 0), 2);
  const LearningRateSchedule cut{.peak = 2, .minimum = 1, .warmup_steps = 10, .steps = 5};
  EXPECT_DOUBLE_EQ(LearningRate(cut, 4), 1);  // Half the way up.
}

TEST(LearningRate, NeverLeavesItsBounds) {
  const LearningRateSchedule schedule{.peak = 3, .minimum = 1, .warmup_steps = 7, .steps = 50};
  for (std::int64_t step = 7; step < 50; ++step) {
    EXPECT_LE(LearningRate(schedule, step), LearningRate(schedule, step - 1)) << step;
    EXPECT_GE(LearningRate(schedule, step), 1) << step;
  }
}

}  // namespace
}  // namespace twinstep
