// A timeline as one HTML file that needs no other file and no network.
//
//   Result<std::string> page = HtmlPage({&simulated, &executed}, {});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/result.h"
#include "traces/show/rank_list.h"
#include "traces/trace.pb.h"

namespace twinstep {

// What the page shows first; all else is a click away.
struct PageView {
  std::vector<RankRange> ranks = {};  // Empty: all.
  std::int64_t from_ps = 0;
  std::int64_t to_ps = 0;               // 0: the end.
  std::string report = {};              // Plain text that stands below the lanes; empty: none.
  std::vector<std::string> files = {};  // Of two traces, their names as given; empty: not told.
};

// One trace or two, of one graph or not: then their tasks are not paired, and the page says why.
// An Error (kBadInput) says what of a trace cannot be used.
Result<std::string> HtmlPage(const std::vector<const Trace*>& traces, const PageView& view);

}  // namespace twinstep
