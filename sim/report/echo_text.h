// What was simulated, as it was understood: model, cluster, plan, iteration.
#pragma once

#include <string>

#include "sim/plan/resolved_plan.h"
#include "sim/report/report.h"

namespace twinstep {

std::string EchoText(const Report& report);

// "LLAMA, 80 layers, hidden 8192, ...": one line, also of `twinstep list models`.
std::string Describe(const Model& model);
// "32 nodes of 8 NVIDIA H800 (80.0 GiB)": one line, also of `twinstep list clusters`.
std::string Describe(const Cluster& cluster);
// "4 GPUs = tensor 2 x context 1 x ...; 1f1b, ...; sequence parallelism on, ...".
std::string Describe(const ResolvedPlan& plan);

}  // namespace twinstep
