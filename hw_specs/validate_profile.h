// Whether a profile can have been measured: what its schema cannot say.
#pragma once

#include "hw_specs/profile.pb.h"
#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

// Every number finite and not negative, every sample with a time above 0, sizes that fit and a
// known operation, once; times under a condition near those without, GPUs' slowness 1 on average,
// no more copying GPUs than there are. All problems, one a line: `file:line:column: field:
// problem`.
Status ValidateProfile(const Profile& profile, const TextSource& source);

// What it was measured on, if it says so, is a cluster that can be (validate_cluster.h): times are
// carried to other machines by its fields.
Status ValidateMeasuredOn(const Profile& profile, const TextSource& source);

}  // namespace twinstep
