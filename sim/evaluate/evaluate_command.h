// `twinstep evaluate`: predicted against measured, over suites of published runs.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

ExitCode RunEvaluateCommand(const std::vector<std::string>& arguments, std::ostream& out,
                            std::ostream& err);

}  // namespace twinstep
