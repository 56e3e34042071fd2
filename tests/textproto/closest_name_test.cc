#include "sim/textproto/closest_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(EditDistanceTest, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("h2d", "hd2"), 1);  // Neighbours swapped.
  EXPECT_EQ(EditDistance("GPU", "gpu"), 0);
}

TEST(ClosestNamesTest, NearestFirstThenAlphabetical) {
  const std::vector<std::string> zoo = {"opt-13b", "llama-7b", "llama-65b", "llama-13b"};
  EXPECT_THAT(ClosestNames("llama-66b", zoo, 2), ElementsAre("llama-65b", "llama-13b"));
  EXPECT_THAT(ClosestNames("llama", zoo, 9), ElementsAre("llama-13b", "llama-65b", "llama-7b"));
  EXPECT_THAT(ClosestNames("zzz", zoo, 9), IsEmpty());
  // A part behind a hyphen is as good as a beginning.
  EXPECT_THAT(ClosestNames("h100", {"b200", "dgx-h100", "h200"}, 2),
              ElementsAre("dgx-h100", "h200"));
  EXPECT_THAT(ClosestNames("", zoo, 9), IsEmpty());
  EXPECT_EQ(DidYouMean("opt13b", zoo), " (did you mean opt-13b?)");
  EXPECT_EQ(DidYouMean("qqqqqqqqqqqq", zoo), "");
  EXPECT_THAT(ClosestNames(std::string(100000, 'l'), zoo, 9), IsEmpty());
}

}  // namespace
}  // namespace twinstep
