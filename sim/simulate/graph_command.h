// `twinstep simulate --graph`: a traced iteration replayed, as it was and with what is faster or
// slower.
#pragma once

#include "sim/options/options.h"
#include "sim/options/run_verb.h"
#include "sim/result.h"

namespace twinstep {

// The options of this mode, besides --cluster, --trace and --json.
OptionGroup GraphOptions();

// An Error (kBadInput) where options of a graph are given without --graph, or others with it.
Status CheckGraphOptions(const Options& options);

ExitCode RunGraphCommand(const Options& options, const VerbOutput& output);

}  // namespace twinstep
