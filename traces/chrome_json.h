// Traces as Chrome JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
// A rank is a process, a lane a thread, a task one complete event; slices of a track never
// overlap. Times are microseconds cut to whole nanoseconds, start and end alike, so that slices
// which touch in the trace touch in the file. GPU, pinned and host memory are counters. Copies and
// communication say how much of them is exposed: no compute task of their rank runs beside it.
// Nothing of the trace is lost: exact times and the tables of names stand where viewers do not
// look, and traces/chrome_reader.h reads them back.
#pragma once

#include <ostream>

#include "sim/graph/task_graph.h"
#include "traces/trace.pb.h"

namespace twinstep {

// Of what is written for traces/chrome_reader.h.
inline constexpr int kChromeJsonVersion = 1;

struct ChromeJsonOptions {
  // Draws an arrow along every edge of this graph that crosses lanes, and from every SEND to its
  // RECV. The trace must be of this graph. Null: no arrows.
  const TaskGraph* flows = nullptr;
};

// Streams: needs no memory beyond the trace. The caller checks the stream's state.
void WriteChromeJson(const Trace& trace, const ChromeJsonOptions& options, std::ostream& out);

}  // namespace twinstep
