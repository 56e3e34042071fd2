// Measures plans on this machine's GPU into a Profile with its provenance.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "exec/profile/measure_gpu.h"
#include "exec/profile/phase_times.h"
#include "exec/profile/profile_input.h"
#include "exec/runtime/backend.h"
#include "hw_specs/profile.pb.h"
#include "sim/report/progress.h"
#include "sim/result.h"

namespace twinstep {

// Makes backends that record times, and compute as the training will.
using MakeBackend = std::function<Result<std::unique_ptr<Backend>>(const ProfileInput& input)>;
// They live one after the other, and what one has learnt of operators the next ones know.
MakeBackend MakeTimedCudaBackends();

// How many times MeasureGpuProfile calls progress->Step().
std::size_t StepsOfGpuMeasurement(const ProfileInput& input);

// A profile without name, date and runs, which its caller knows. Takes about `input.seconds`,
// shared by its plans, and two seconds to warm up. Adds to `times`. Errors as MeasureGpuPlan's
// (measure_gpu.h).
Result<Profile> MeasureGpuProfile(const ProfileInput& input, const MakeBackend& make_backend,
                                  const ProbeSizes& sizes, Progress* progress, PhaseTimes* times);

}  // namespace twinstep
