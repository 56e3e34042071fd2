#include "sim/cost/gpu_speeds.h"

#include <algorithm>

namespace twinstep {

bool HasGpuSpeeds(const Profile* profile, const Cluster& cluster, std::int64_t ranks) {
  if (profile == nullptr || cluster.nodes() > 1) return false;
  const std::int64_t gpus = cluster.node().gpus();
  if (ranks > gpus || gpus > profile->measured_on().node().gpus()) return false;
  if (cluster.gpu().name() != profile->measured_on().gpu().name()) return false;
  return std::ranges::any_of(profile->operators(), [](const OperatorSample& sample) {
    return !sample.gpu_slowness().empty();
  });
}

}  // namespace twinstep
