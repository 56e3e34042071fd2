// A comparison of two traces as a person reads it: tables within the report's width.
#pragma once

#include <string>
#include <vector>

#include "traces/compare.h"

namespace twinstep {

struct ComparisonTextOptions {
  std::size_t ranks = 8;  // Ranks, operators that have a line of their own.
  std::size_t operators = 20;
};

// All but the verdicts.
std::string ComparisonTables(const TraceComparison& comparison,
                             const ComparisonTextOptions& options = {});
// A line each, behind an empty one; nothing of none.
std::string VerdictText(const std::vector<Verdict>& verdicts);
// Both.
std::string ComparisonText(const TraceComparison& comparison,
                           const ComparisonTextOptions& options = {});

}  // namespace twinstep
