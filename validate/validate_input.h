// From options to what a validation needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/train/train_input.h"
#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "sim/options/options.h"
#include "sim/result.h"
#include "traces/compare.h"

namespace twinstep {

struct ValidateInput {
  TrainInput train;
  Cluster cluster;                         // With the threads that train.
  const char* cluster_option = "cluster";  // That said it: --profile where there is no --cluster.
  std::optional<Profile> profile;
  double measure_s = 0;  // --profile auto: time to measure the machine first.
  std::int64_t dropped_steps = 2;
  Tolerances tolerances;
};

// An Error names the option, or file, line and field; an infeasible plan is one of kNo. With
// measure_s the profile is still missing, and the cluster unless it was given.
Result<ValidateInput> ReadValidateInput(const Options& options);

// Fits the cluster to the training: its ranks and threads, whatever the machine's file says. An
// Error where the backend is of another kind.
Status FitToTraining(ValidateInput* input);

}  // namespace twinstep
