// The verb `show`: a trace as a page or as text.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

ExitCode RunShowCommand(const std::vector<std::string>& arguments, std::ostream& out,
                        std::ostream& err);

}  // namespace twinstep
