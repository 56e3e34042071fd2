#include "sim/options/positional.h"

#include <algorithm>

namespace twinstep {
namespace {

// "--json", but neither "--json=FILE" nor a switch.
bool TakesNext(const std::vector<OptionGroup>& groups, const std::string& argument) {
  return std::any_of(groups.begin(), groups.end(), [&argument](const OptionGroup& group) {
    return std::any_of(group.options.begin(), group.options.end(), [&](const OptionSpec& option) {
      return option.argument != nullptr && argument == std::string("--") + option.name;
    });
  });
}

}  // namespace

SplitArguments SplitPositional(const std::vector<OptionGroup>& groups,
                               const std::vector<std::string>& arguments) {
  SplitArguments split;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("--")) {
      split.positional.push_back(arguments[i]);
      continue;
    }
    split.options.push_back(arguments[i]);
    if (TakesNext(groups, arguments[i]) && i + 1 < arguments.size()) {
      split.options.push_back(arguments[++i]);
    }
  }
  return split;
}

}  // namespace twinstep
