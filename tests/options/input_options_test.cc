#include "sim/options/input_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace twinstep {
namespace {

using testing::HasSubstr;

std::string Written(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

// Of a GPU that was measured at 600 TFLOP/s.
std::string ProfileOn(const std::string& gpu) {
  return Written("profile.textproto", R"(
      name: "p"
      measured_on {
        name: "measured" nodes: 1
        gpu { name: ")" + gpu + R"(" memory_bytes: 150000000000 bf16_flops_per_s: 600e12
              memory_bytes_per_s: 4e12 }
        node { gpus: 1 pcie { h2d_bytes_per_s: 50e9 d2h_bytes_per_s: 50e9 }
               host { memory_bytes: 100000000000 dram_bytes_per_s: 90e9 cores: 16 } }
      })");
}

Result<MachineOptions> Read(const std::vector<Option>& given) {
  return ReadMachineOptions(Options(given), "simulate");
}

TEST(MachineOptions, WithoutAClusterTheMachineThatWasMeasured) {
  const Result<MachineOptions> machine = Read({{"profile", ProfileOn("NVIDIA H200")}});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine.value().cluster.name(), "measured");
  EXPECT_EQ(machine.value().cluster.gpu().bf16_flops_per_s(), 600e12);
}

// Else a time would change by the quotient of what was measured and a data sheet.
TEST(MachineOptions, TimesOfTheClustersOwnGpuCarryOver) {
  const auto flops_then = [](const std::string& gpu) {
    const Result<MachineOptions> machine =
        Read({{"profile", ProfileOn(gpu)}, {"cluster", "h200-x2"}});
    EXPECT_TRUE(machine.ok()) << machine.error().message;
    EXPECT_EQ(machine.value().cluster.node().gpus(), 2);
    EXPECT_EQ(machine.value().profile->measured_on().node().gpus(), 1);
    return machine.value().profile->measured_on().gpu().bf16_flops_per_s();
  };
  EXPECT_EQ(flops_then("NVIDIA H200"), 989e12);
  EXPECT_EQ(flops_then("H200"), 989e12);
  EXPECT_EQ(flops_then("NVIDIA H200 NVL"), 600e12);
  EXPECT_EQ(flops_then("NVIDIA H800"), 600e12);
}

TEST(MachineOptions, EitherIsNeeded) {
  EXPECT_THAT(Read({}).error().message, HasSubstr("--cluster is missing, or a --profile"));
  const std::string nowhere = Written("nowhere.textproto", "name: 'p'");
  EXPECT_THAT(Read({{"profile", nowhere}}).error().message,
              HasSubstr("does not say what it was measured on"));
  EXPECT_TRUE(Read({{"cluster", "h200"}}).ok());
}

}  // namespace
}  // namespace twinstep
