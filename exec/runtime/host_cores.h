// How processes that train together share the CPU cores of their hosts.
//
//   std::vector<HostCores> all = ...;         // ThisHostCores() of every process.
//   std::vector<int> threads = ShareCores(all);  // By process: {8, 8} of two on 16 cores.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <span>
#include <vector>

namespace twinstep {

// The cores that a process may run on, which launchers restrict, and of which host. Is sent as it
// lies in memory.
struct HostCores {
  static constexpr std::size_t kMostCores = 1024;

  std::array<char, 64> host{};  // The kernel's boot id, else its host name.
  std::bitset<kMostCores> cores;
};

HostCores ThisHostCores();

// By process: of each core that it may use the part that is left to it by the processes which may
// use that core, too; rounded down, at least 1.
std::vector<int> ShareCores(std::span<const HostCores> processes);

}  // namespace twinstep
