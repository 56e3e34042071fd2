// Which GPUs of a node share a NIC port and a host uplink.
//
//   NodeLayout layout(cluster);
//   layout.NicPortOf(local_gpu);  // 0 .. nic_ports() - 1
#pragma once

#include <cstdint>

#include "hw_specs/cluster.pb.h"

namespace twinstep {

class NodeLayout {
 public:
  explicit NodeLayout(const Cluster& cluster);

  std::int64_t gpus_per_node() const { return gpus_per_node_; }

  // NICs as the GPUs see them: with more NICs than GPUs, those of one GPU are one port.
  std::int64_t nic_ports() const { return nic_ports_; }
  std::int64_t NicPortOf(std::int64_t local_gpu) const {
    return local_gpu * nic_ports_ / gpus_per_node_;
  }
  // One direction of one port; 0 without a NIC.
  double nic_port_bytes_per_s() const { return nic_port_bytes_per_s_; }

  // GPUs below one PCIe switch; 1 where each has its own way to the host.
  std::int64_t gpus_per_uplink() const { return gpus_per_uplink_; }
  std::int64_t UplinkOf(std::int64_t local_gpu) const { return local_gpu / gpus_per_uplink_; }

 private:
  std::int64_t gpus_per_node_, nic_ports_, gpus_per_uplink_;
  double nic_port_bytes_per_s_ = 0;
};

}  // namespace twinstep
