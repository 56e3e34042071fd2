// The options of `twinstep train`.
#pragma once

#include <string>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"

namespace twinstep {

Result<Options> ParseTrainOptions(const std::vector<std::string>& arguments);

// The text of --help.
std::string TrainHelp();

}  // namespace twinstep
