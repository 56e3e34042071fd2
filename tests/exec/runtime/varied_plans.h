// A few plans that together use every lane, every kind of task and every pool.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.pb.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {

struct NamedPlan {
  std::string name, model;
  Plan plan;
};

std::vector<NamedPlan> VariedPlans();

// States after some steps with MixingKernel; a test failure where training fails.
std::uint64_t HashAfter(const NamedPlan& plan, RunOptions options, int steps);

}  // namespace twinstep
