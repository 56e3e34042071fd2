#include "exec/runtime/host_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <thread>

namespace twinstep {

HostCores ThisHostCores() {
  HostCores result;
  std::string host;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> host;
  if (!host.empty()) {
    std::copy_n(host.begin(), std::min(host.size(), result.host.size() - 1), result.host.begin());
  } else {
    gethostname(result.host.data(), result.host.size() - 1);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  static_assert(CPU_SETSIZE == HostCores::kMostCores);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (std::size_t core = 0; core < HostCores::kMostCores; ++core) {
      if (CPU_ISSET(core, &set)) result.cores.set(core);
    }
  }
  // More cores than the set holds: which they are does not matter.
  for (std::size_t core = 0; result.cores.none() && core < std::thread::hardware_concurrency();) {
    result.cores.set(core++ % HostCores::kMostCores);
  }
  return result;
}

std::vector<int> ShareCores(std::span<const HostCores> processes) {
  std::map<std::string_view, std::array<int, HostCores::kMostCores>> users;
  const auto name = [](const HostCores& process) {
    return std::string_view(process.host.data(), process.host.size());
  };
  const auto for_each_core = [](const HostCores& process, auto&& visit) {
    for (std::size_t core = 0; core < HostCores::kMostCores; ++core) {
      if (process.cores[core]) visit(core);
    }
  };
  for (const HostCores& process : processes) {
    std::array<int, HostCores::kMostCores>& of_host = users[name(process)];
    for_each_core(process, [&](std::size_t core) { ++of_host[core]; });
  }
  std::vector<int> shares;
  for (const HostCores& process : processes) {
    double share = 0;
    for_each_core(process, [&](std::size_t core) { share += 1.0 / users[name(process)][core]; });
    constexpr double kRounding = 1e-6;  // Three thirds are one core.
    shares.push_back(std::max(1, static_cast<int>(std::floor(share + kRounding))));
  }
  return shares;
}

}  // namespace twinstep
