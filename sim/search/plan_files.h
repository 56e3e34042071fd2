// The plans of a search as files that `simulate` and `train` take: "plan-256-1.textproto" is the
// best of 256 GPUs. Each begins with what it is of (model, cluster, time, the search), as comments.
//
//   Status free = CheckPlanFolder("best", report);   // Before the search,
//   Status done = WritePlans("best", report);        // and after it.
#pragma once

#include <string>

#include "sim/result.h"
#include "sim/search/rank_report.h"

namespace twinstep {

// Whether a file has the name of a plan that a search writes.
bool IsPlanName(const std::string& name);

// What is there stays beside what is written, and a plan of one model must not be taken for one of
// another: an Error (kBadInput) names a file of a plan that another search has written, or this one
// of another shard. The search need not be done.
Status CheckPlanFolder(const std::string& directory, const Ranking& report);

// Makes the folder where there is none. Errors (kBadInput) name the file.
Status WritePlans(const std::string& directory, const Ranking& report);

}  // namespace twinstep
