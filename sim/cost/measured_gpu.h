// What a profile says of the GPU that it was measured on (Profile::measured_on: the rate of one
// large product, that of one copy) in the terms of cluster files (a data sheet's peaks, and which
// fraction operators reach), so that times can be carried from one GPU to another: a time that was
// measured is multiplied by what is modelled for the other GPU over what is modelled for the
// measured one, which means something only where both models speak of the same.
//
//   DescribeByDataSheet(profile.mutable_measured_on());            // Where it is simulated itself.
//   DescribeInTermsOf(cluster, profile.mutable_measured_on());     // Where `cluster` is.
#pragma once

#include "hw_specs/cluster.pb.h"

namespace twinstep {

// Both take valid clusters (hw_specs/validate_cluster.h), whose rates are above 0.

// Where hw_specs has the very GPU, its peak of products, of which the measured rate becomes the
// fraction reached: modelled times stay as they are, but model FLOPs utilisation is of the data
// sheet's peak.
void DescribeByDataSheet(Cluster* measured);

// Of the very GPU, as the cluster describes it: then times carry over as they are. Of another that
// hw_specs has, as it is described there. Of any other, as the cluster describes its own, with
// peaks in the proportion of what was measured to what large products and copies reach there.
void DescribeInTermsOf(const Cluster& cluster, Cluster* measured);

}  // namespace twinstep
