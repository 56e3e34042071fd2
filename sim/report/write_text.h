// A report's files.
#pragma once

#include <string>

#include "sim/result.h"

namespace twinstep {

// Replaces what the file holds. An Error (kBadInput) names the path and why it cannot be written.
Status WriteTextFile(const std::string& path, const std::string& text);

}  // namespace twinstep
