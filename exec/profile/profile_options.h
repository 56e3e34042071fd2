// The options of `twinstep profile`.
#pragma once

#include <string>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"

namespace twinstep {

Result<Options> ParseProfileOptions(const std::vector<std::string>& arguments);

// The text of --help.
std::string ProfileHelp();

}  // namespace twinstep
