// `twinstep train`: see its --help.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// `arguments` without program and verb. A line a step goes to `out`, messages to `err`.
ExitCode RunTrainCommand(const std::vector<std::string>& arguments, std::ostream& out,
                         std::ostream& err);

}  // namespace twinstep
