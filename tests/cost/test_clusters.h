// Clusters with plausible constants for tests: published peaks, efficiencies fitted once to the
// measured tables that the tests quote. One set a machine serves every test.
#pragma once

#include "hw_specs/cluster.pb.h"

namespace twinstep {

// 8 x H200 (NVSwitch, NVLS), PCIe 5 (hw_specs/SOURCES.md M6b, M7, M9).
Cluster H200Node();
// DGX A100: NVLink 3, no NVLS (M6a); 8 NICs of 25 GB/s.
Cluster A100Node();
// 8 x H800 a node: NVLink at 200 GB/s, 8 NICs of 100 Gb (Yuan et al., ATC 2024).
Cluster H800Cluster();
// 4 x RTX 3090: PCIe 3 only, peers through the host.
Cluster Rtx3090Node();
// Round numbers, every efficiency 1 and no latency: what closed forms are checked with.
Cluster PlainCluster();

}  // namespace twinstep
