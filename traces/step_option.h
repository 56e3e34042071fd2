// Options of verbs that read profiles: which step is the iteration.
#pragma once

#include "sim/options/options.h"
#include "sim/result.h"
#include "traces/kineto/kineto_window.h"

namespace twinstep {

// --NAME N|all; not given: the default of StepChoice. An Error (kBadInput) names the option.
OptionSpec StepOption(const char* name);
Result<StepChoice> ReadStepOption(const Options& options, const char* name);

}  // namespace twinstep
