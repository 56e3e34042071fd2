#include "traces/trace_title.h"

namespace twinstep {

const char* OriginName(const Trace& trace) {
  switch (trace.origin()) {
    case Trace::SIMULATED:
      return "simulated";
    case Trace::EXECUTED:
      return "executed";
    case Trace::IMPORTED:
      return "imported";
    default:
      return "";
  }
}

std::pair<std::string, std::string> TitlesOf(const Trace& a, const Trace& b) {
  std::string title_a = OriginName(a), title_b = OriginName(b);
  if (title_a.empty() || title_b.empty() || title_a == title_b) return {"A", "B"};
  return {title_a, title_b};
}

}  // namespace twinstep
