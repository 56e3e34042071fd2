// Measures plans on this machine into a Profile with its provenance.
//
//   Progress progress(StepsOfMeasurement(input));
//   MeasurementNotes notes;
//   Result<Profile> profile = MeasureProfile(input, &progress, &notes);
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "exec/profile/phase_times.h"
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

struct MeasurementNotes {
  std::vector<std::string> warnings;  // Where times under load could not be measured as asked.
  PhaseTimes times;                   // Where the time went.
};

// Takes about `input.seconds`, shared by its plans, and what runs need to start. An Error of kNo
// where a plan does not fit into memory.
Result<Profile> MeasureProfile(const ProfileInput& input, Progress* progress,
                               MeasurementNotes* notes);

}  // namespace twinstep
