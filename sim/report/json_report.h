// The report as JSON. Names are stable; units stand in them. docs: README.md, "Report".
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/report/report.h"

namespace twinstep {

nlohmann::ordered_json ToJson(const Report& report);

// {"rule", "message", "rank", "pool", "bytes"}; rank, pool and bytes only where they apply.
nlohmann::ordered_json ToJson(const Error& infeasible);

// As a file. Bytes that are no UTF-8 (a name, a path) are replaced: JSON cannot hold them.
std::string JsonText(const nlohmann::ordered_json& json);

}  // namespace twinstep
