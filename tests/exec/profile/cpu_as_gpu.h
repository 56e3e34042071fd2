// The measurement of a GPU, with the CPU backend in its place.
//
//   ExpectCovered(GpuProfileInput(model, {plan}));
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/profile/gpu_measure_options.h"
#include "exec/profile/profile_input.h"
#include "exec/runtime/backend.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/fused_pairs.h"
#include "sim/plan/plan.pb.h"
#include "sim/result.h"

namespace twinstep {

Result<std::unique_ptr<Backend>> MakeCpuBackend(const ProfileInput& input, PairRule most_pairs,
                                                int first_gpu);

// As short as they may be.
ProbeSizes SmallSizes();

ProfileInput GpuProfileInput(const Model& model, const std::vector<Plan>& plans,
                             std::int64_t gpus = 1);

// Every primitive of the plans is in the profile that is measured, no task of theirs has a time
// that is guessed, and the simulator takes it.
void ExpectCovered(const ProfileInput& input, Profile* made = nullptr,
                   const ProbeSizes& sizes = SmallSizes());

}  // namespace twinstep
