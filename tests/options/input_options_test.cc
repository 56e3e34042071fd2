#include "sim/options/input_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "hw_specs/find_cluster.h"

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

// The description of the GPU that times were measured on.
Gpu MeasuredOn(const std::string& gpu, const std::string& cluster) {
  const Result<MachineOptions> machine = Read({{"profile", ProfileOn(gpu)}, {"cluster", cluster}});
  EXPECT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine.value().profile->measured_on().node().gpus(), 1);
  return machine.value().profile->measured_on().gpu();
}

TEST(MachineOptions, WithoutAClusterTheMachineThatWasMeasured) {
  const Result<MachineOptions> machine = Read({{"profile", ProfileOn("NVIDIA H999")}});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine.value().cluster.name(), "measured");
  EXPECT_EQ(machine.value().cluster.gpu().bf16_flops_per_s(), 600e12);
}

// Model FLOPs utilisation is of what the maker promises, where it is known.
TEST(MachineOptions, ThePeakIsThatOfTheDataSheet) {
  const Result<MachineOptions> machine = Read({{"profile", ProfileOn("NVIDIA H200")}});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  const Gpu& gpu = machine.value().cluster.gpu();
  EXPECT_EQ(gpu.bf16_flops_per_s(), 989e12);
  EXPECT_DOUBLE_EQ(gpu.gemm_max_efficiency() * 989e12, 600e12);
  EXPECT_DOUBLE_EQ(gpu.attention_backward().max_efficiency() * 989e12, 600e12);
  EXPECT_EQ(gpu.memory_bytes_per_s(), 4e12);
  EXPECT_EQ(machine.value().profile->measured_on().gpu().SerializeAsString(),
            gpu.SerializeAsString());
}

// Else a time would change by the quotient of what was measured and a data sheet.
TEST(MachineOptions, TimesOfTheClustersOwnGpuCarryOver) {
  for (const char* gpu : {"NVIDIA H200", "H200"}) {
    EXPECT_EQ(MeasuredOn(gpu, "h200-x2").bf16_flops_per_s(), 989e12);
    EXPECT_EQ(MeasuredOn(gpu, "h200-x2").gemm_max_efficiency(), 0.86);
  }
}

// Both GPUs by their cluster files.
TEST(MachineOptions, TimesOfAKnownGpuAreCarriedByItsDescription) {
  const Gpu gpu = MeasuredOn("NVIDIA H200", "dgx-a100");
  EXPECT_EQ(gpu.name(), "NVIDIA H200");
  EXPECT_EQ(gpu.bf16_flops_per_s(), 989e12);
  EXPECT_EQ(gpu.memory_bytes_per_s(), 4.8e12);
  EXPECT_EQ(gpu.attention_backward().max_efficiency(), 0.531);
}

// What large products and copies reach is what was measured.
TEST(MachineOptions, TimesOfAnUnknownGpuAreCarriedByWhatWasMeasured) {
  const Gpu gpu = MeasuredOn("NVIDIA H999", "h200"), h200 = FindCluster("h200").value().gpu();
  EXPECT_DOUBLE_EQ(gpu.bf16_flops_per_s() * gpu.gemm_max_efficiency() * gpu.sustained_fraction(),
                   600e12);
  EXPECT_DOUBLE_EQ(gpu.memory_bytes_per_s() * gpu.memory_bound().max_efficiency(), 4e12);
  EXPECT_EQ(gpu.attention_backward().SerializeAsString(),
            h200.attention_backward().SerializeAsString());
  EXPECT_DOUBLE_EQ(gpu.fp32_flops_per_s() / h200.fp32_flops_per_s(),
                   gpu.bf16_flops_per_s() / h200.bf16_flops_per_s());
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
