// Measures plans on this machine's GPU into a Profile with its provenance.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "exec/profile/gpu_measure_options.h"
#include "exec/profile/phase_times.h"
#include "exec/profile/profile_input.h"
#include "exec/runtime/backend.h"
#include "hw_specs/profile.pb.h"
#include "sim/graph/fused_pairs.h"
#include "sim/report/progress.h"
#include "sim/result.h"

namespace twinstep {

// Makes backends that record times, and compute as the training will, on the GPUs from `first_gpu`
// on.
using MakeBackend = std::function<Result<std::unique_ptr<Backend>>(
    const ProfileInput& input, PairRule most_pairs, int first_gpu)>;
// Those of one GPU live one after the other, and what one has learnt of operators the next ones
// know.
MakeBackend MakeTimedCudaBackends();

// How many times MeasureGpuProfile calls progress->Step().
inline constexpr std::size_t kStepsOfGpuMeasurement = kGpuPhases + 1;

// A profile without name, date and runs, which its caller knows. Measures for about
// `input.seconds`. Adds to `times`. Errors as MeasureGpuPlans' (measure_gpu.h).
Result<Profile> MeasureGpuProfile(const ProfileInput& input, const MakeBackend& make_backend,
                                  const ProbeSizes& sizes, Progress* progress, PhaseTimes* times);

}  // namespace twinstep
