// Where a search's report goes: standard output and the files asked for.
#pragma once

#include <cstddef>
#include <ostream>

#include "sim/options/options.h"
#include "sim/result.h"
#include "sim/search/rank_report.h"

namespace twinstep {

// What cannot be written is said before the work and not after it. `asked` has the echo of the
// search, which is over so many numbers of GPUs.
Status CheckRankOutputs(const Options& options, const Ranking& asked, std::size_t gpus);

// --json, --csv, --plans, --plot and --explain.
Status WriteRankOutputs(const Options& options, const Ranking& report, std::ostream& out);

}  // namespace twinstep
