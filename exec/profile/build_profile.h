// Measured times as the entries of a Profile, and several measurements as one Profile.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "exec/profile/measure_plan.h"
#include "exec/profile/primitive.h"
#include "hw_specs/profile.pb.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// An entry for every primitive that has times: medians without outliers, in the primitives' order.
// Sets dispatch_s where there are gaps.
Profile BuildEntries(const PrimitiveSamples& samples);

// An Error if they were measured on different machines, versions or options.
Status CheckSameProvenance(const Profile& earlier, const Profile& now);

// Adds what `more` has measured. Where both have an entry of one primitive that of `more` stays;
// provenance and single figures are its own, models and plans those of both; how GPUs differ stays
// where both have as many. An Error of
// CheckSameProvenance: one profile has one provenance.
Status MergeProfile(const Profile& more, Profile* profile);

// Which primitives of a graph have an entry of exactly their shape. What has none is interpolated
// or extrapolated by the cost model (sim/cost/profile_cost.h).
struct Coverage {
  std::size_t measured = 0;
  std::vector<std::string> missing;  // "gemm_forward fp32 256 64 64"
};
Coverage CoverageOf(const Profile& profile, const TaskGraph& graph);

// How far the samples of the entries spread, each entry's relative_spread.
struct Spread {
  double median = 0, largest = 0;
  std::string at;  // The entry with the largest.
};
Spread SpreadOf(const Profile& profile);

// The text file, with a comment that says what it is.
std::string ProfileText(const Profile& profile);

}  // namespace twinstep
