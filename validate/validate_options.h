// The options of `twinstep validate`.
#pragma once

#include <string>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"

namespace twinstep {

Result<Options> ParseValidateOptions(const std::vector<std::string>& arguments);

// The text of --help.
std::string ValidateHelp();

}  // namespace twinstep
