// The options of `twinstep simulate`.
#pragma once

#include <string>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"

namespace twinstep {

Result<Options> ParseOptions(const std::vector<std::string>& arguments);

// The text of --help.
std::string SimulateHelp();

}  // namespace twinstep
