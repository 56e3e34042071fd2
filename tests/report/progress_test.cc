#include "sim/report/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace twinstep {
namespace {

TEST(ProgressTest, LineShowsStepWhatAndTimeWithinTheWidth) {
  EXPECT_EQ(ProgressLine(0, 4, "lowering", 1.2, 80),
            "[>                       ] 1/4 lowering  1 s");
  EXPECT_EQ(ProgressLine(2, 4, "replaying", 65, 80),
            "[============>           ] 3/4 replaying  65 s");
  EXPECT_EQ(ProgressLine(9, 4, "done", 2, 80), "[========================] 4/4 done  2 s");
  EXPECT_EQ(ProgressLine(2, 4, "replaying", 65, 20).size(), 20u);
  EXPECT_EQ(ProgressLine(2, 4, "a plan", 65, 80, /*counts=*/false),
            "[============>           ] a plan  65 s");
}

TEST(ProgressTest, ShortWorkDrawsNothing) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(2, /*force_terminal=*/true);
    progress.Step("first");
    progress.Step("second");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ProgressTest, LongWorkDrawsALineAndWipesIt) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(2, /*force_terminal=*/true);
    progress.Step("first");
    progress.Step("second");
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  }
  const std::string drawn = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(drawn.find("2/2 second"), std::string::npos) << drawn;
  EXPECT_EQ(drawn.substr(drawn.size() - 4), "\r\x1b[K");
}

}  // namespace
}  // namespace twinstep
