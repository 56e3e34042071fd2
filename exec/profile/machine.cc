#include "exec/profile/machine.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "exec/cpu/blas.h"
#include "exec/profile/statistics.h"
#include "sim/format.h"
#include "sim/hardware_threads.h"
#include "sim/str_cat.h"
#include "sim/version.h"

namespace twinstep {
namespace {

constexpr std::int64_t kRanks = 1024;  // One process holds any number; the schema's most.
constexpr std::int64_t kBytesPerKilobyte = 1024;

std::string ReadAll(const char* path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The value behind "name   : " of the first line that begins with `name`.
std::string_view LineValue(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string_view::npos ? std::string_view() : line.substr(begin);
  }
  return {};
}

// "32768K" of the largest of the first core's caches.
std::int64_t LastCacheBytes() {
  std::int64_t largest = 0;
  for (int level = 0;; ++level) {
    std::ifstream file(StrCat("/sys/devices/system/cpu/cpu0/cache/index", level, "/size"));
    std::int64_t kilobytes = 0;
    if (!(file >> kilobytes)) return largest;
    largest = std::max(largest, kilobytes * kBytesPerKilobyte);
  }
}

}  // namespace

std::string CpuModel(std::string_view cpuinfo) {
  return std::string(LineValue(cpuinfo, "model name"));
}

std::int64_t MemoryLine(std::string_view meminfo, std::string_view name) {
  std::int64_t kilobytes = 0;
  std::istringstream(std::string(LineValue(meminfo, name))) >> kilobytes;
  return kilobytes * kBytesPerKilobyte;
}

Machine ReadMachine() {
  Machine machine{.cpu = CpuModel(ReadAll("/proc/cpuinfo")),
                  .cores = HardwareThreads(),
                  .memory_bytes = MemoryLine(ReadAll("/proc/meminfo"), "MemTotal"),
                  .cache_bytes = LastCacheBytes()};
  if (machine.cpu.empty()) machine.cpu = "unknown CPU";
  return machine;
}

std::int64_t AllocatableBytes() { return MemoryLine(ReadAll("/proc/meminfo"), "MemAvailable"); }

std::string Describe(const Machine& machine) {
  return StrCat(machine.cpu, ", ", machine.cores, machine.cores == 1 ? " core, " : " cores, ",
                Bytes(static_cast<double>(machine.memory_bytes)));
}

std::string DescribeWithGpu(const Machine& machine, const std::string& gpu) {
  return StrCat(gpu, ", ", machine.cpu, ", ", machine.cores,
                machine.cores == 1 ? " core" : " cores");
}

std::vector<std::string> Versions() {
  return {
    StrCat("twinstep ", kVersion), BlasVersion(),
#if defined(__clang__)
        StrCat("clang ", __clang_version__)
#else
        StrCat("gcc ", __VERSION__)
#endif
  };
}

Cluster MachineCluster(const Machine& machine, const MachineRates& rates) {
  Cluster cluster;
  cluster.set_name("measured");
  cluster.set_description(Describe(machine));
  cluster.set_nodes(1);
  Gpu* gpu = cluster.mutable_gpu();
  gpu->set_name(StrCat("a thread of ", machine.cpu));
  gpu->set_memory_bytes(machine.memory_bytes);
  // 16-bit numbers are stored only: arithmetic is in fp32.
  gpu->set_bf16_flops_per_s(RoundMeasured(rates.fp32_flops_per_s));
  gpu->set_fp32_flops_per_s(RoundMeasured(rates.fp32_flops_per_s));
  gpu->set_fp64_flops_per_s(RoundMeasured(rates.fp64_flops_per_s));
  gpu->set_memory_bytes_per_s(RoundMeasured(rates.thread_bytes_per_s));
  if (machine.cache_bytes > 0) gpu->set_l2_bytes(machine.cache_bytes);
  Node* node = cluster.mutable_node();
  node->set_gpus(kRanks);
  node->mutable_pcie()->set_h2d_bytes_per_s(RoundMeasured(rates.copy_bytes_per_s));
  node->mutable_pcie()->set_d2h_bytes_per_s(RoundMeasured(rates.copy_bytes_per_s));
  node->mutable_nvlink()->set_bytes_per_s(RoundMeasured(rates.copy_bytes_per_s));
  node->mutable_host()->set_memory_bytes(machine.memory_bytes);
  node->mutable_host()->set_dram_bytes_per_s(RoundMeasured(rates.dram_bytes_per_s));
  node->mutable_host()->set_cores(machine.cores);
  return cluster;
}

}  // namespace twinstep
