// `twinstep list models|clusters`: one name a line, first word, then what it is.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

ExitCode RunListCommand(const std::vector<std::string>& arguments, std::ostream& out,
                        std::ostream& err);

}  // namespace twinstep
