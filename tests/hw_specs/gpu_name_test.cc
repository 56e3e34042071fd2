#include "hw_specs/gpu_name.h"

#include <gtest/gtest.h>

namespace twinstep {
namespace {

TEST(GpuNameTest, TheMakerMakesNoDifference) {
  EXPECT_TRUE(IsSameGpu("H200", "NVIDIA H200"));
  EXPECT_FALSE(IsSameGpu("A100-80GB SXM4", "NVIDIA A100-SXM4-80GB"));
  EXPECT_FALSE(IsSameGpu("", ""));
}

TEST(GpuNameTest, ChipsAreToldApart) {
  EXPECT_FALSE(AreOtherChips("A100-80GB SXM4", "NVIDIA A100-SXM4-80GB"));
  EXPECT_FALSE(AreOtherChips("GeForce RTX 3090", "NVIDIA GeForce RTX 3090"));
  EXPECT_TRUE(AreOtherChips("GeForce RTX 3090", "NVIDIA GeForce RTX 4090"));
  EXPECT_TRUE(AreOtherChips("H800", "NVIDIA H200"));
  EXPECT_TRUE(AreOtherChips("H100 SXM5", "AMD Instinct MI300X"));
  EXPECT_TRUE(AreOtherChips("NVIDIA H20", "H200"));
  EXPECT_TRUE(AreOtherChips("NVIDIA L4", "NVIDIA L40S"));
  // What is no name of a chip may be any.
  EXPECT_FALSE(AreOtherChips("", "NVIDIA H200"));
  EXPECT_FALSE(AreOtherChips("core", "NVIDIA H200"));
  EXPECT_FALSE(AreOtherChips("some 80GB GPU", "NVIDIA H200"));
}

}  // namespace
}  // namespace twinstep
