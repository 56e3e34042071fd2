// Plans of other systems, as the chunk manager can express them (ProTrain): the
// baselines of ProTrain.
//
//   std::optional<Plan> preset = PresetPlan("zero3-offload");
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/plan/plan.pb.h"

namespace twinstep {

// "fsdp-offload", "zero3-offload", "gemini-static", "zero-offload".
std::vector<std::string> PresetNames();

// The fields that the system's way decides; none where no preset has the name.
std::optional<Plan> PresetPlan(const std::string& name);

}  // namespace twinstep
