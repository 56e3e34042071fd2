// From options to what a simulation needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/frameworks/framework.pb.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/plan/plan.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"
#include "sim/simulate/options.h"

namespace twinstep {

// kClosedForm: the papers' closed forms beside a replay with kFast.
enum class EngineKind { kFast, kSimgrid, kClosedForm };

struct SimulateInput {
  Model model;
  Cluster cluster;
  std::optional<Profile> profile;
  std::optional<Framework> framework;
  Plan plan;
  std::int64_t gpus = 0;
  PlanRules rules;
  bool solve_offload = false;  // --offload-ratio auto.
  std::optional<std::int64_t> gpu_memory_budget_bytes;
  std::int64_t gpu_memory_capacity_bytes = 0;
  std::int64_t host_memory_budget_bytes = 0;  // Per node.
  EngineKind engine = EngineKind::kFast;
  bool all_ranks = false;
};

// Reads the files, applies flags and --set (of one value each), validates. An Error names the
// option or the file, line and field.
Result<SimulateInput> ReadInput(const Options& options, const std::string& verb = "simulate");

}  // namespace twinstep
