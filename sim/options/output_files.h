// Outputs that would destroy what they come from.
//
//   Status free = CheckOutputFiles({"a.pb"}, options, {"json", "html"});
#pragma once

#include <string>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"

namespace twinstep {

// An Error (kBadInput) names the option whose file is one of the inputs, or that of another of the
// options, by whatever name or link. "-" is no file, nor is a device.
Status CheckOutputFiles(const std::vector<std::string>& inputs, const Options& options,
                        const std::vector<std::string>& names);

}  // namespace twinstep
