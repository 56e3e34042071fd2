// The machine that a profile is measured on: what it is, and what its cores and memory can do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hw_specs/cluster.pb.h"

namespace twinstep {

struct Machine {
  std::string cpu;  // "AMD EPYC 9554", "unknown" where the system does not say.
  int cores = 1;    // That this process may run on.
  std::int64_t memory_bytes = 0;
  std::int64_t cache_bytes = 0;  // Of the last level; 0 = none or unknown.
};

// Of Linux: /proc/cpuinfo and /proc/meminfo.
Machine ReadMachine();
// What could be allocated now.
std::int64_t AllocatableBytes();
// "AMD EPYC 9554, 2 cores, 23.4 GiB"
std::string Describe(const Machine& machine);
// "NVIDIA H200, AMD EPYC 9554, 16 cores": of a machine that is measured for its GPU. Memory is not
// in: virtual machines show more of it as it is used.
std::string DescribeWithGpu(const Machine& machine, const std::string& gpu);
// The first "model name" of /proc/cpuinfo's text.
std::string CpuModel(std::string_view cpuinfo);
// The line "MemTotal:   24545 kB" of /proc/meminfo's text, in bytes; 0 if there is none. `name` as
// it stands there.
std::int64_t MemoryLine(std::string_view meminfo, std::string_view name);

// What numbers depend on besides the machine: "OpenBLAS ...", "gcc 12.2.0", "twinstep 0.1.0".
std::vector<std::string> Versions();

// Rates of one thread while the others rest, and of all threads together.
struct MachineRates {
  double fp32_flops_per_s = 0, fp64_flops_per_s = 0;  // A large matrix product, one thread.
  double thread_bytes_per_s = 0;                      // STREAM triad (24 bytes an element).
  double dram_bytes_per_s = 0;                        // The same of all threads.
  double copy_bytes_per_s = 0;                        // memcpy, one thread, bytes copied.
};
// Takes about a second.
MachineRates MeasureRates(int threads);
// MachineRates::dram_bytes_per_s alone.
double MeasureDramBytesPerSecond(int threads);

// The machine as a cluster: one node, whose ranks compute with a thread each; copies and messages
// are copies in memory.
Cluster MachineCluster(const Machine& machine, const MachineRates& rates);

}  // namespace twinstep
