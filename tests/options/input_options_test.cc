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
std::string ProfileOn(const std::string& gpu, const std::string& flops = "600e12",
                      const std::string& more_of_node = "") {
  return Written("profile.textproto", R"(
      name: "p"
      measured_on {
        name: "measured" nodes: 1
        gpu { name: ")" + gpu + R"(" memory_bytes: 150000000000 bf16_flops_per_s: )" +
                                          flops + R"(
              memory_bytes_per_s: 4e12 }
        node { gpus: 1 )" + more_of_node + R"( pcie { h2d_bytes_per_s: 50e9 d2h_bytes_per_s: 50e9 }
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

TEST(MachineOptions, NoFasterThanItsDataSheet) {
  const std::string profile = ProfileOn("NVIDIA H200", "1100e12");
  const Result<MachineOptions> machine = Read({{"profile", profile}});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine.value().cluster.gpu().bf16_flops_per_s(), 1100e12);
}

// Times are carried by its fields, so that they are as good as a cluster's.
TEST(MachineOptions, WhatWasMeasuredCanBe) {
  for (const std::vector<Option>& more : {std::vector<Option>{}, {{"cluster", "h200"}}}) {
    std::vector<Option> given = {{"profile", ProfileOn("NVIDIA H999", "1e-9")}};
    given.insert(given.end(), more.begin(), more.end());
    EXPECT_THAT(Read(given).error().message,
                HasSubstr("profile.textproto:5:62: gpu.bf16_flops_per_s: 1e-09 is not between"));
  }
}

TEST(MachineOptions, ThreadsAreNoGpus) {
  const std::string profile = ProfileOn("core", "1e11", "workers { threads: 2 }");
  EXPECT_THAT(Read({{"profile", profile}, {"cluster", "h200"}}).error().message,
              HasSubstr("--profile: was measured on worker threads, and h200 has GPUs"));
  EXPECT_THAT(Read({{"profile", ProfileOn("NVIDIA H200")}, {"cluster", "cpu-x2"}}).error().message,
              HasSubstr("--profile: was measured on GPUs, and cpu-x2 has worker threads"));
}

TEST(MachineOptions, AdamOfTheVeryGpuIsAsFastAsItWas) {
  const std::string cluster =
      Written("adam.textproto", R"(base: "h200" name: "a" gpu_adam_params_per_s: 1e9)");
  const Result<MachineOptions> machine =
      Read({{"profile", ProfileOn("NVIDIA H200")}, {"cluster", cluster}});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine.value().profile->measured_on().gpu_adam_params_per_s(), 1e9);
  EXPECT_EQ(machine.value().profile->measured_on().gpu().name(), "H200");
}

// Not only the file that an option names is read.
TEST(MachineOptions, ABaseIsNotWrittenOver) {
  const std::string base = Written("base.textproto", R"(base: "h200" name: "b")");
  const std::string cluster = Written("own.textproto", R"(base: "base.textproto" name: "o")");
  const Option json{"json", base, FileUse::kWritten};
  EXPECT_THAT(Read({{"cluster", cluster}, json}).error().message,
              HasSubstr("--json: " + base + " is what is read"));
  // A file that has the name of one in the binary is not read.
  EXPECT_TRUE(Read({{"cluster", cluster}, {"json", "h200.textproto", FileUse::kWritten}}).ok());

  const std::string software = Written("software.textproto", R"(name: "s" base: "pytorch-eager")");
  const std::string more = Written("more.textproto", R"(name: "m" base: "software.textproto")");
  EXPECT_TRUE(ReadFrameworkOption(Options({{"framework", more}})).ok());
  EXPECT_THAT(
      ReadFrameworkOption(Options({{"framework", more}, {"json", software, FileUse::kWritten}}))
          .error()
          .message,
      HasSubstr("--json: " + software + " is what is read"));
  const std::string lost = Written("lost.textproto", "name: 'l'\n base: 'pytorch-eger'");
  EXPECT_THAT(ReadFrameworkOption(Options({{"framework", lost}})).error().message,
              HasSubstr("lost.textproto:2:2: base: no framework 'pytorch-eger'"));
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
