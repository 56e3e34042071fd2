// The options of `twinstep train`.
#pragma once

#include <string>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"

namespace twinstep {

// Those that say what is trained, how and where: what a training needs besides its outputs.
std::vector<OptionGroup> TrainingGroups();

Result<Options> ParseTrainOptions(const std::vector<std::string>& arguments);

// The text of --help.
std::string TrainHelp();

}  // namespace twinstep
