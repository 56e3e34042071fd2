// A comparison of two traces as one JSON object; units stand in the names.
#pragma once

#include <nlohmann/json.hpp>

#include "traces/compare.h"

namespace twinstep {

// {"a": {...}, "b": {...}, "ok": true, "iteration": {"a_s": .., "b_s": .., "error": ..},
//  "breakdown": {..}, "ranks": [..], "kinds": [..], "lanes": [..], "phases": [..],
//  "operators": [..], "memory": [..], "largest_tasks": [..], "verdicts": [..]}
// An error that does not exist (nothing to divide by) is null.
nlohmann::ordered_json ToJson(const TraceComparison& comparison);

}  // namespace twinstep
