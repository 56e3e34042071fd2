// Files of frameworks: what they may say, and what they have from each other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "hw_specs/frameworks/find_framework.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;

std::string Write(const std::string& name, const std::string& text) {
  std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::string ErrorOf(const std::string& path) {
  const Result<Framework> framework = FindFramework(path);
  return framework.ok() ? "no error" : framework.error().message;
}

TEST(FrameworksTest, AllOfThemAreValid) {
  for (const std::string& name : ListFrameworks()) {
    const Result<Framework> framework = FindFramework(name);
    ASSERT_TRUE(framework.ok()) << framework.error().message;
    EXPECT_EQ(framework.value().name(), name);
    EXPECT_NE(framework.value().source(), "");
  }
}

TEST(FrameworksTest, HasWhatItsBaseHas) {
  const Framework base = FindFramework("transformers-2023").value();
  const Framework own = FindFramework("fsdp-2023").value();
  EXPECT_EQ(own.kernels_size(), base.kernels_size());
  EXPECT_EQ(own.dispatch_s(), base.dispatch_s());
  EXPECT_EQ(own.host_threads(), 1);
}

TEST(FrameworksTest, BasesThatBuildOnEachOtherEnd) {
  const std::string path = ::testing::TempDir() + "circle.textproto";
  Write("circle.textproto", "name: \"circle\" base: \"" + path + "\"");
  EXPECT_THAT(ErrorOf(path), HasSubstr("more than 4 bases"));
}

TEST(FrameworksTest, FactorsHaveRanges) {
  EXPECT_THAT(
      ErrorOf(Write("a.textproto", "name: \"a\" kernels { op: \"add\" output_bytes: 2000 }")),
      HasSubstr("output_bytes"));
  EXPECT_THAT(ErrorOf(Write("b.textproto", "name: \"b\" kernels { op: \"add\" kept_input: 2 }")),
              HasSubstr("kept_input"));
  EXPECT_THAT(ErrorOf(Write("e.textproto", "name: \"e\" kernels { op: \"add\" arithmetic: 1e9 }")),
              HasSubstr("arithmetic"));
  EXPECT_THAT(ErrorOf(Write("c.textproto", "name: \"c\" gradient_copies { bytes: 1e6 }")),
              HasSubstr("gradient_copies.bytes"));
  EXPECT_THAT(ErrorOf(Write("d.textproto", "name: \"d\" base: \"nothing-like-it\"")),
              HasSubstr("nothing-like-it"));
}

}  // namespace
}  // namespace twinstep
