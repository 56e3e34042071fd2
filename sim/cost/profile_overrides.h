// What a profile says of the machine as a whole, in place of the cluster's own constants: how kinds
// of tasks slow each other, how threads are dispatched, rates of copies and of CPU Adam. Operators,
// copies and collectives by size: profile_cost.h.
//
//   const Cluster measured = WithProfile(cluster, &profile);
//   out.interference = FactorsOf(cluster, &profile);
#pragma once

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "sim/cost/graph_costs.h"
#include "sim/cost/link_map.h"

namespace twinstep {

// All may be called without a profile: nullptr.

// The cluster with the profile's single figures in place of its own.
Cluster WithProfile(const Cluster& cluster, const Profile* profile);

// Every factor at least 1 but those that others stand for where they are 0
// (sim/engine/interference.h). Copies: without what GPUs that share a host lose to each other,
// which LinkOverrides::copies_slowdown or GraphCosts::host_copies say.
Interference FactorsOf(const Cluster& cluster, const Profile* profile);

// No threads on clusters of GPUs.
WorkerPool WorkersOf(const Cluster& cluster, const Profile* profile);

LinkOverrides OverridesOf(const Profile* profile);

}  // namespace twinstep
