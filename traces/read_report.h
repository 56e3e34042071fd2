// What a reader says of what it read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "traces/open_trace.h"

namespace twinstep {

// Paragraphs, the first behind `label`.
std::string ReadText(const std::string& label, const ReadReport& report);
// {"format", "files", "events", "read": [{"what", "events", "time_s"}], "unknown", "skipped",
//  "remarks"}
nlohmann::ordered_json ToJson(const ReadReport& report);

}  // namespace twinstep
