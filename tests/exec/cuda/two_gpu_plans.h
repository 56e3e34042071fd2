// Plans of two ranks, of every kind that makes them exchange something.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/plan/plan.pb.h"

namespace twinstep {

struct PlanCase {
  std::string label;
  std::function<void(Plan&)> edit;
};
std::vector<PlanCase> TwoGpuPlans();

// The plan with `test_case`'s changes. A chunk a block, or one chunk would hold all and stay.
Plan PlanOf(const PlanCase& test_case, Plan plan, std::int64_t block_bytes);

// Values of CudaOptions::late_lanes: both where the plan copies between GPU and host; lanes of
// others are never late (exec/cuda/late_plan.h).
std::vector<bool> LateLanesOf(const Plan& plan);

}  // namespace twinstep
