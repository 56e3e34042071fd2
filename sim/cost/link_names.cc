#include <array>

#include "sim/cost/graph_costs.h"

namespace twinstep {

const char* Name(LinkKind kind) {
  static constexpr std::array<const char*, kLinkKindCount> kNames = {
      "pcie_h2d",   "pcie_d2h",  "pcie_duplex", "uplink_h2d", "uplink_d2h",   "dram",
      "nvlink_out", "nvlink_in", "nic_out",     "nic_in",     "host_compute", "host_copies"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "invalid";
}

}  // namespace twinstep
