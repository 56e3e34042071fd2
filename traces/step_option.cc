#include "traces/step_option.h"

#include <cstdint>

#include "sim/options/read_option.h"

namespace twinstep {

OptionSpec StepOption(const char* name) {
  return {name, "N|all",
          "of a profile with several steps, which: ProfilerStep's number, or all of the file "
          "(default: the middle one by length)"};
}

Result<StepChoice> ReadStepOption(const Options& options, const char* name) {
  StepChoice choice;
  if (options.Get(name) == "all") {
    choice.whole = true;
    return choice;
  }
  const Status read =
      ReadInteger(options, name, 0, [&choice](std::int64_t x) { choice.number = x; });
  if (!read.ok()) return read.error();
  return choice;
}

}  // namespace twinstep
