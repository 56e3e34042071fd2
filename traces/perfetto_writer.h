// Traces in Perfetto's own format (protobuf, TrackEvent), which ui.perfetto.dev opens faster than
// JSON and which its trace processor can query.
//
// A rank is a process, a lane a track below it; a slice is a task with its operator as the name and
// its phase as the category, memory is a counter. Times are cut to whole nanoseconds, so slices
// that touch in the trace touch in the file, and none overlap.
#pragma once

#include <ostream>

#include "sim/graph/task_graph.h"
#include "traces/trace.pb.h"

namespace twinstep {

// `flows`, if not null, is the trace's graph: arrows as in traces/chrome_json.h. Streams: needs no
// memory beyond the trace. The caller checks the stream's state.
void WritePerfetto(const Trace& trace, const TaskGraph* flows, std::ostream& out);

}  // namespace twinstep
