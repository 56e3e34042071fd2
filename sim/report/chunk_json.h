// Chunks and blocks of all simulated ranks as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/report/chunk_report.h"

namespace twinstep {

nlohmann::ordered_json ToJson(const ChunksOfRank& rank);

}  // namespace twinstep
