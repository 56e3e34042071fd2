// A cluster for tests of what is measured on GPUs.
//
//   const ResolvedPlan plan = ResolvePlan(model, SmallGpus(2), SmallPlan(2, 1, 1, 1), 2).value();
#pragma once

#include <cstdint>

#include "hw_specs/cluster.pb.h"

namespace twinstep {

// One node of so many GPUs of one GiB.
inline Cluster SmallGpus(std::int64_t gpus = 1) {
  Cluster cluster;
  cluster.set_name("small");
  cluster.set_nodes(1);
  cluster.mutable_node()->set_gpus(gpus);
  cluster.mutable_gpu()->set_name("CPU in place of a GPU");
  cluster.mutable_gpu()->set_memory_bytes(std::int64_t{1} << 30);
  return cluster;
}

}  // namespace twinstep
