// How operators, copies and collectives of a GPU slow each other down, from what was measured.
//
//   *profile.mutable_interference() = InterferenceOf(profile, samples);
#pragma once

#include "exec/profile/gpu_samples.h"
#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"

namespace twinstep {

// Of a profile that has its operators, copies, host_copies and collectives.
Interference InterferenceOf(const Profile& profile, const GpuSamples& samples);

}  // namespace twinstep
