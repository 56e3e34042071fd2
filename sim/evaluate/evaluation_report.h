// An evaluation as text, JSON and picture.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/evaluate/evaluation.h"

namespace twinstep {

// A table a suite with a line a row, then a line a suite and quantity; `rows` false: without the
// first.
std::string ToText(const std::vector<Evaluation>& evaluations, bool rows);
// The lines of summaries alone.
std::string SummaryText(const std::vector<Evaluation>& evaluations);

nlohmann::ordered_json ToJson(const std::vector<Evaluation>& evaluations);

// Predicted over measured times, both logarithmic, a colour a suite: one self-contained SVG.
std::string ToSvg(const std::vector<Evaluation>& evaluations);

}  // namespace twinstep
