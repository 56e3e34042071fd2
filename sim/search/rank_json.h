// A search's report as JSON, and back: parts of one search are merged from their files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/result.h"
#include "sim/search/rank_report.h"

namespace twinstep {

nlohmann::ordered_json ToJson(const Ranking& report);

// Of what ToJson has written. An Error (kBadInput) names the file and the field.
Result<Ranking> ReadRankJson(const std::string& path);

}  // namespace twinstep
