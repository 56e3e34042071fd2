// Whether a cluster can exist: what its schema cannot say.
#pragma once

#include "hw_specs/cluster.pb.h"
#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

// Every number finite and in a plausible range (none so small that an iteration overflows 2^63
// picoseconds by itself), efficiencies at most 1, interference at least 1, a network where there
// are several nodes. All problems, one a line: `file:line:column: problem (field)`.
Status ValidateCluster(const Cluster& cluster, const TextSource& source);

// For a cluster that was not read from text, or was changed since: errors name the cluster.
Status ValidateCluster(const Cluster& cluster);

}  // namespace twinstep
