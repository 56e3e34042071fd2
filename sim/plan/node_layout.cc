#include "sim/plan/node_layout.h"

#include <algorithm>

namespace twinstep {

NodeLayout::NodeLayout(const Cluster& cluster)
    : gpus_per_node_(std::max<std::int64_t>(1, cluster.node().gpus())),
      nic_ports_(std::clamp<std::int64_t>(cluster.node().nic().count(), 1, gpus_per_node_)),
      gpus_per_uplink_(
          std::clamp<std::int64_t>(cluster.node().pcie().gpus_per_uplink(), 1, gpus_per_node_)) {
  const Nic& nic = cluster.node().nic();
  nic_port_bytes_per_s_ =
      nic.bytes_per_s() * static_cast<double>(nic.count()) / static_cast<double>(nic_ports_);
}

}  // namespace twinstep
