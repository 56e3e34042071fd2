// The plans of a search as files that `simulate` and `train` take: "plan-256-1.textproto" is the
// best of 256 GPUs. Each begins with what it is of (model, cluster, time, the search), as comments.
//
//   Status ready = PreparePlanFolder("best", report);   // Before the search,
//   Status done = WritePlans("best", report);           // and after it.
#pragma once

#include <string>

#include "sim/result.h"
#include "sim/search/rank_report.h"

namespace twinstep {

// Whether a file has the name of a plan that a search writes.
bool IsPlanName(const std::string& name);

// Makes the folder where there is none. What lies in it stays beside what is written, and a plan of
// one model must not be taken for one of another: an Error (kBadInput) names a file of a plan that
// another search has written, or this one of another shard, or says why none can be written. The
// search need not be done.
Status PreparePlanFolder(const std::string& directory, const Ranking& report);

// Errors (kBadInput) name the file.
Status WritePlans(const std::string& directory, const Ranking& report);

}  // namespace twinstep
