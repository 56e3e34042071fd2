// `twinstep pareto`: see its --help.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

ExitCode RunParetoCommand(const std::vector<std::string>& arguments, std::ostream& out,
                          std::ostream& err);

}  // namespace twinstep
