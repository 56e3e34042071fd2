// Whether ranks compute at different speeds: GPUs of one machine do, where a profile has measured
// each (hw_specs/profile.proto, OperatorSample.gpu_slowness).
//
//   const bool fold = !RanksDiffer(profile, cluster, plan.gpus);
#pragma once

#include <cstdint>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"

namespace twinstep {

// Whether rank r computes as the r-th GPU of the machine that was measured: where the training puts
// it (exec/cuda/placement.h), if it has one node of GPUs of that name, and no more of them than
// were measured. Other clusters are what-ifs, whose GPUs are all like the mean of those. `profile`
// may be null.
bool HasGpuSpeeds(const Profile* profile, const Cluster& cluster, std::int64_t ranks);

// The same, of several ranks: none stands for others, and the graph must not be folded.
inline bool RanksDiffer(const Profile* profile, const Cluster& cluster, std::int64_t ranks) {
  return ranks > 1 && HasGpuSpeeds(profile, cluster, ranks);
}

}  // namespace twinstep
