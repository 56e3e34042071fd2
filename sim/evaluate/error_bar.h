// How much to trust a prediction: the errors that suites record for its cluster, and in what the
// simulation lies beyond their rows.
#pragma once

#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/report/report.h"

namespace twinstep {

struct Simulated {
  const Model& model;
  const Cluster& cluster;
  const ResolvedPlan& plan;
  std::string framework, profile;  // Names; empty without one.
};

// One a suite that has iterations on a cluster of that name.
std::vector<ErrorBar> ErrorBarsOf(const Simulated& simulated);

}  // namespace twinstep
