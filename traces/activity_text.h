// Two traces by what their ranks do, as a person reads it: tables within the report's width.
#pragma once

#include <string>

#include "traces/activity_comparison.h"

namespace twinstep {

struct ActivityTextOptions {
  std::size_t ranks = 8;  // Ranks, operators that have a line of their own.
  std::size_t operators = 15;
};

std::string ActivityText(const ActivityComparison& comparison,
                         const ActivityTextOptions& options = {});

}  // namespace twinstep
