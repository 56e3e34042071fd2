// A trace as text: a row a lane of a rank, time from left to right.
//
//   std::cout << TextTimeline(trace, {.width = TerminalWidth(STDOUT_FILENO, 100)});
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "traces/trace.pb.h"

namespace twinstep {

struct TextTimelineOptions {
  std::size_t width = 100;  // Columns; at least 60 are used.
  bool colour = false;      // ANSI colours, for a terminal.
  std::int64_t from_ps = 0;
  std::int64_t to_ps = 0;  // 0: the end of the iteration.
  // By global rank; empty: all.
  std::function<bool(std::uint32_t)> shows_rank = {};
};

// Each column of a row shows what takes most of its time: an upper-case letter where the lane is
// busy for half of it or more, else a lower-case one. Memory is a row a pool in tenths of its peak.
// Forwards and backwards of pipelines follow with their micro-batches, unless a part of the time is
// asked for. Expects a trace that TraceProblem finds nothing wrong with.
std::string TextTimeline(const Trace& trace, const TextTimelineOptions& options);

}  // namespace twinstep
