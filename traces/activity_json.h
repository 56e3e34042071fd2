// Two traces by what their ranks do, as one JSON object; units stand in the names.
#pragma once

#include <nlohmann/json.hpp>

#include "traces/activity_comparison.h"

namespace twinstep {

// {"a": {"title", "name", "tasks", "unknown_events"}, "b": {...}, "ok": true,
//  "iteration": {"a_s", "b_s", "error"}, "parts": {...}, "ranks": {"a": [...], "b": [...]},
//  "kinds": [{"name", "a_tasks", "b_tasks", "time", "busy", "exposed", "overlapped"}],
//  "phases": [...], "operators": [...], "largest": [...], "verdicts": [...]}
// An error that does not exist (nothing to divide by) is null.
nlohmann::ordered_json ToJson(const ActivityComparison& comparison);

}  // namespace twinstep
