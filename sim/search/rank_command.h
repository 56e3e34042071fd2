// `twinstep rank` and `twinstep merge`: see their --help.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// `arguments` without program and verb. The report goes to `out` and to the files asked for,
// messages to `err`.
ExitCode RunRankCommand(const std::vector<std::string>& arguments, std::ostream& out,
                        std::ostream& err);
ExitCode RunMergeCommand(const std::vector<std::string>& arguments, std::ostream& out,
                         std::ostream& err);

}  // namespace twinstep
