// --set FIELD=A,B,C: every combination of values is simulated, and a table compares them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/report/report.h"
#include "sim/result.h"
#include "sim/simulate/options.h"

namespace twinstep {

struct SweepPoint {
  // The swept fields and their values here; empty if nothing is swept.
  std::vector<std::pair<std::string, std::string>> fields;
  Options options;  // With one value each.
};

// One point for every combination, the last field fastest; one point if no --set has several
// values. More than kMaxSweepPoints are an Error, and so is a field that is set twice.
inline constexpr std::size_t kMaxSweepPoints = 1000;
Result<std::vector<SweepPoint>> ExpandSweep(const Options& options);

struct SweepRow {
  std::vector<std::pair<std::string, std::string>> fields;
  Report report;
};

// What is simulated, a line a point (time relative to the first one), and all warnings.
std::string SweepText(const std::vector<SweepRow>& rows);
// {"sweep": [{"set": {field: value}, ... the report ...}]}
nlohmann::ordered_json SweepJson(const std::vector<SweepRow>& rows);

// A warning for each swept field whose values all give the same times and peaks. Points that are
// both infeasible are not compared.
std::vector<std::string> FieldsWithoutEffect(const std::vector<SweepRow>& rows);

}  // namespace twinstep
