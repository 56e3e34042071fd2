// Whether a Trace message holds what its schema says.
#pragma once

#include <string>

#include "traces/trace.pb.h"

namespace twinstep {

// The first column whose length or indices do not fit, or an empty string.
std::string TraceProblem(const Trace& trace);

}  // namespace twinstep
