// The report for a person: plain text, at most 100 columns.
#pragma once

#include <string>
#include <vector>

#include "sim/report/report.h"

namespace twinstep {

// Ranks beyond `max_ranks` in a table are counted, not shown: they are in the JSON report.
std::string ToText(const Report& report, std::size_t max_ranks = 32);

// A blank line and a paragraph each; empty if there are none.
std::string WarningsText(const std::vector<std::string>& warnings);

}  // namespace twinstep
