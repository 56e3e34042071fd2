// What a profile says in place of the cluster's constants.
#include "sim/cost/profile_overrides.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace twinstep {
namespace {

Profile Parse(const std::string& text) {
  Profile profile;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &profile));
  return profile;
}

double DuplexRate(const std::string& copies) {
  const Profile profile = Parse(copies);
  return OverridesOf(&profile).duplex_bytes_per_s;
}

// Up 40 GB/s and down 50, of the largest copies that were measured so.
TEST(ProfileOverridesTest, BothWaysAGpuCopiesWhatItsDirectionsDo) {
  const std::string up =
      "copies { direction: H2D bytes: 1000000 alone_s: 20e-6 both_ways_s: 25e-6 }";
  const std::string down =
      "copies { direction: D2H bytes: 1000000 alone_s: 20e-6 both_ways_s: 20e-6 }";
  const std::string others = R"(
      copies { direction: H2D bytes: 1000 alone_s: 10e-6 both_ways_s: 10e-6 }
      copies { direction: D2H bytes: 9000000 alone_s: 180e-6 })";
  EXPECT_DOUBLE_EQ(DuplexRate(up + down + others), 90e9);
  EXPECT_DOUBLE_EQ(DuplexRate(others + down + up), 90e9);
  // One direction alone is taken to stand for both.
  EXPECT_DOUBLE_EQ(DuplexRate(up + others), 80e9);
  EXPECT_DOUBLE_EQ(DuplexRate(others + down), 100e9);
  EXPECT_EQ(DuplexRate("copies { direction: H2D bytes: 1000000 alone_s: 20e-6 }"), 0);
  EXPECT_EQ(OverridesOf(nullptr).duplex_bytes_per_s, 0);
}

}  // namespace
}  // namespace twinstep
