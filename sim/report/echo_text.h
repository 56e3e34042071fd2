// What was simulated, as it was understood: model, cluster, plan, iteration.
#pragma once

#include <string>

#include "sim/report/report.h"

namespace twinstep {

std::string EchoText(const Report& report);

// "LLAMA, 80 layers, hidden 8192, ...": one line, also of `twinstep list models`.
std::string Describe(const Model& model);
// "32 nodes of 8 NVIDIA H800 (80.0 GiB)": one line, also of `twinstep list clusters`.
std::string Describe(const Cluster& cluster);

}  // namespace twinstep
