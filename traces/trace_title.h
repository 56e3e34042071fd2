// What a trace is called beside another.
#pragma once

#include <string>
#include <utility>

#include "traces/trace.pb.h"

namespace twinstep {

// "simulated", "executed", "imported"; empty where the trace does not say.
const char* OriginName(const Trace& trace);

// The origins of two traces; "A" and "B" where they are the same or one is not known.
std::pair<std::string, std::string> TitlesOf(const Trace& a, const Trace& b);

}  // namespace twinstep
