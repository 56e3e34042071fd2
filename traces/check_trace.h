// Whether a Trace message holds what its schema says: columns of one length with indices in range,
// at least one task, each task and rank once, times within the iteration.
#pragma once

#include <string>

#include "traces/trace.pb.h"

namespace twinstep {

// What does not fit first, or an empty string.
std::string TraceProblem(const Trace& trace);

}  // namespace twinstep
