// How copies of all GPUs of a host slow each other, from what a profile has measured of them
// (hw_specs/profile.proto, HostCopySample).
//
//   out.host_copies = HostCopyRatesOf(profile, cluster);
//   factors.set_h2d_beside_compute(factors.h2d_beside_compute() / SlowdownsOf(profile).h2d);
#pragma once

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "sim/cost/graph_costs.h"

namespace twinstep {

// Of the cluster's hosts. What lies between measured numbers of GPUs is interpolated, by the time a
// byte takes. A host of more GPUs than were measured is taken to carry the more: there half of its
// GPUs slow each other as half of those measured do. Links that are faster than those measured are
// as much faster in company. Without samples, or with one GPU a host: no limits.
HostCopyRates HostCopyRatesOf(const Profile& profile, const Cluster& cluster);

// Of copies while all GPUs of the host copy, over those of one GPU that copies alike: one way, and
// both. At least 1; 1 where it was not measured.
struct HostCopySlowdowns {
  double h2d = 1, d2h = 1, both = 1;
};
HostCopySlowdowns SlowdownsOf(const Profile& profile);

}  // namespace twinstep
