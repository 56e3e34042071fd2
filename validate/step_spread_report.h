// How much the steps of a validation differ, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "traces/compare.h"
#include "validate/step_spread.h"

namespace twinstep {

// A table of the mean of all ranks: the iteration, each kind of task, what is exposed. Nothing of a
// single step, of which the comparison says all.
std::string SpreadText(const StepSpread& spread, const TraceComparison& comparison);

// {"kinds": [{"name": "compute", "a_s": .., "step_s": [..], "least_s": .., "median_s": ..,
//             "most_s": .., "error": ..}],
//  "exposed": {"tp_exposed_s": {"a_s": .., "step_s": [..], ..}}}
// Seconds: a_s as simulated, step_s of each step in order; kinds over all ranks, exposed times the
// mean of the ranks, as in the comparison. The error is a_s / median_s - 1, null where nothing is
// to divide by.
nlohmann::ordered_json ToJson(const StepSpread& spread);

}  // namespace twinstep
