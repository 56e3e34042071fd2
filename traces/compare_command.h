// `twinstep compare A B`: see its --help.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// `arguments` without program and verb. The comparison goes to `out` and to the files asked for,
// messages to `err`. kNo if it is out of tolerance.
ExitCode RunCompareCommand(const std::vector<std::string>& arguments, std::ostream& out,
                           std::ostream& err);

}  // namespace twinstep
