#include "exec/profile/gpu_slowness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(GpuSlowness, IsOverTheMeanOfMedians) {
  EXPECT_THAT(SlownessOf({{2, 3, 3, 3, 90}, {5, 5}}), ElementsAre(0.75, 1.25));
  EXPECT_THAT(SlownessOf({{4}, {4}, {4}, {4}}), ElementsAre(1, 1, 1, 1));
}

TEST(GpuSlowness, IsUnknownWhereAGpuIs) {
  EXPECT_THAT(SlownessOf({}), IsEmpty());
  EXPECT_THAT(SlownessOf({{3}}), IsEmpty());
  EXPECT_THAT(SlownessOf({{3}, {}}), IsEmpty());
  EXPECT_THAT(SlownessOf({{3}, {0}}), IsEmpty());
  EXPECT_THAT(SlownessOf({{1}, {11}}), IsEmpty());
}

TEST(GpuSlowness, MeansOfMeasurementsAndOfGpus) {
  EXPECT_THAT(MeanSlowness({{0.75, 1.25}, {1, 1}}), ElementsAre(0.875, 1.125));
  EXPECT_THAT(MeanSlowness({}), IsEmpty());
  EXPECT_EQ(SlownessOfFirst({0.5, 0.75, 1.75}, 1), 0.5);
  EXPECT_EQ(SlownessOfFirst({0.5, 0.75, 1.75}, 2), 0.625);
  EXPECT_EQ(SlownessOfFirst({0.5, 0.75, 1.75}, 8), 1);
  EXPECT_EQ(SlownessOfFirst({}, 2), 1);
}

}  // namespace
}  // namespace twinstep
