// `twinstep profile`: see its --help.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// `arguments` without program and verb. What was measured goes to `out`, messages to `err`.
ExitCode RunProfileCommand(const std::vector<std::string>& arguments, std::ostream& out,
                           std::ostream& err);

}  // namespace twinstep
