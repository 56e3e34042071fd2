#include "exec/profile/task_company.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace twinstep {
namespace {

TEST(TaskCompanyTest, ShareOfTheTimeThatOthersRun) {
  const std::vector<TaskTime> times = {{0, 100}, {50, 150}, {100, 110}, {300, 400}};
  const TaskCompany company(times);
  EXPECT_DOUBLE_EQ(company.Of(times[0]), 0.5);
  EXPECT_DOUBLE_EQ(company.Of(times[1]), 0.6);  // 50 ns of the first, 10 ns of the third.
  EXPECT_DOUBLE_EQ(company.Of(times[2]), 1);
  EXPECT_DOUBLE_EQ(company.Of(times[3]), 0);
  EXPECT_DOUBLE_EQ(company.Of({0, 0}), 0);
  EXPECT_DOUBLE_EQ(company.OfOther({0, 400}), 3.1 / 4);
  EXPECT_DOUBLE_EQ(company.OfOther({150, 250}), 0);
  EXPECT_DOUBLE_EQ(company.OfOther({0, 0}), 0);
}

RC_GTEST_PROP(TaskCompanyProperty, EqualsTheSumOfOverlaps, ()) {
  std::vector<TaskTime> times;
  for (const auto& [start, length] : *rc::gen::container<std::vector<std::pair<int, int>>>(
           rc::gen::pair(rc::gen::inRange(0, 1000), rc::gen::inRange(1, 200)))) {
    times.push_back({start, start + length});
  }
  const TaskCompany company(times);
  for (const TaskTime& time : times) {
    double overlap = 0;
    for (const TaskTime& other : times) {
      overlap += static_cast<double>(std::max<std::int64_t>(
          0, std::min(time.end_ns, other.end_ns) - std::max(time.start_ns, other.start_ns)));
    }
    const auto duration = static_cast<double>(time.end_ns - time.start_ns);
    RC_ASSERT(std::abs(company.Of(time) - (overlap / duration - 1)) < 1e-6);
  }
}

}  // namespace
}  // namespace twinstep
