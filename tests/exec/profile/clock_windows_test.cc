#include "exec/profile/clock_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace twinstep {
namespace {

// Windows of 10 ms, `fast_s` of them at 0.8 of the steady time, the rest at `slow` of it.
std::vector<ClockWindow> Windows(double fast_s, double slow) {
  std::vector<ClockWindow> windows(20);
  for (ClockWindow& window : windows) {
    window.seconds = 0.01;
    const double fast = std::min(fast_s, window.seconds);
    fast_s -= fast;
    window.steady_s = fast / 0.8 + (window.seconds - fast) / slow;
  }
  return windows;
}

TEST(ClockWindowsTest, FastTimeIsFoundWhereverItEnds) {
  for (const double fast_s : {0.0, 0.004, 0.01, 0.056}) {
    for (const double slow : {1.0, 1.03}) {
      const std::vector<ClockWindow> windows = Windows(fast_s, slow);
      EXPECT_DOUBLE_EQ(SteadySlowness(windows), slow);
      EXPECT_NEAR(FastSeconds(windows, 0.8, slow), fast_s, 1e-12);
    }
  }
}

// After a short rest speeds fall by and by: half as much faster for twice as long is as good.
TEST(ClockWindowsTest, SlowerBoostsCountInPart) {
  std::vector<ClockWindow> windows = Windows(0, 1);
  for (int i = 0; i < 4; ++i) windows[static_cast<std::size_t>(i)].steady_s = 0.5 * (0.0125 + 0.01);
  EXPECT_NEAR(FastSeconds(windows, 0.8, 1), 0.02, 1e-12);
}

TEST(ClockWindowsTest, WhatComesOnceItWasSlowIsNoBoost) {
  std::vector<ClockWindow> windows = Windows(0.02, 1);
  windows[10].steady_s = 0.0125;
  EXPECT_NEAR(FastSeconds(windows, 0.8, 1), 0.02, 1e-12);
}

TEST(ClockWindowsTest, NoMoreThanAllIsFast) {
  std::vector<ClockWindow> windows = Windows(0.02, 1);
  windows[0].steady_s = 0.02;
  EXPECT_NEAR(FastSeconds(windows, 0.8, 1), 0.02, 1e-12);
}

TEST(ClockWindowsTest, WithoutTimesThereIsNoBoost) {
  EXPECT_EQ(FastSeconds({}, 0.8, 1), 0);
  EXPECT_EQ(ClockWindow().Slowness(), 1);
}

}  // namespace
}  // namespace twinstep
