// Arguments that are no options, for verbs that take some: files before, between or after options.
//
//   const SplitArguments split = SplitPositional(groups, arguments);
//   Result<Options> options = ParseOptions(groups, "compare", split.options);
//   for (const std::string& file : split.positional) ...
#pragma once

#include <string>
#include <vector>

#include "sim/options/options.h"

namespace twinstep {

struct SplitArguments {
  std::vector<std::string> positional, options;
};

// What begins with -- is an option, and what follows one that takes an argument is its value. An
// unknown option stays for ParseOptions to name.
SplitArguments SplitPositional(const std::vector<OptionGroup>& groups,
                               const std::vector<std::string>& arguments);

}  // namespace twinstep
