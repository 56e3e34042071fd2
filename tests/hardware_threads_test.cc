#include "sim/hardware_threads.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace twinstep {
namespace {

TEST(HardwareThreadsTest, CountsTheCoresThatTheProcessMayRunOn) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(HardwareThreads(), CPU_COUNT(&all));
  // As taskset leaves one.
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &all)) --last;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(HardwareThreads(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(HardwareThreads(), CPU_COUNT(&all));
}

}  // namespace
}  // namespace twinstep
