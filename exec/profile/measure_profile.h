// Measures plans on this machine into a Profile with its provenance.
//
//   Progress progress(StepsOfMeasurement(input));
//   std::vector<std::string> warnings;
//   Result<Profile> profile = MeasureProfile(input, &progress, &warnings);
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "exec/profile/profile_input.h"
#include "hw_specs/profile.pb.h"
#include "sim/report/progress.h"
#include "sim/result.h"

namespace twinstep {

// Among Profile.options where the kernels of --deterministic were measured.
inline constexpr const char* kDeterministicOption = "deterministic";

// A profile of what is known before the work: name, machine, date, versions, options and runs.
Profile ProvenanceOf(const ProfileInput& input);

// How many times MeasureProfile calls progress->Step().
std::size_t StepsOfMeasurement(const ProfileInput& input);

// Takes about `input.seconds`, shared by its plans. Warnings say where times under load could not
// be measured as asked. An Error of kNo where a plan does not fit into memory.
Result<Profile> MeasureProfile(const ProfileInput& input, Progress* progress,
                               std::vector<std::string>* warnings);

}  // namespace twinstep
