// From options to what is to be measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/options/options.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

struct PlanToMeasure {
  std::string name;  // The plan's file, or "" if only flags say it.
  Cluster cluster;   // One node with a GPU for each rank.
  ResolvedPlan plan;
};

struct ProfileInput {
  Model model;
  std::vector<PlanToMeasure> plans;
  bool on_gpu = false;
  bool deterministic = false;  // On a GPU (exec/cuda/cuda_options.h).
  int threads = 1;             // On a GPU: of its host tasks.
  double seconds = 0;
  std::string data;                // As LoweredPlan::data.
  std::string output;              // Where the profile goes.
  std::optional<Profile> earlier;  // Of --append,
  std::string earlier_file;        // and where it was.
};

// An Error names the option, or file, line and field; an infeasible plan is one of kNo.
Result<ProfileInput> ReadProfileInput(const Options& options);

}  // namespace twinstep
