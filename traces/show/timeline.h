// A trace as rows of a picture: a row a lane of a rank, more where its events overlap (imported
// traces nest calls), each with its events in time order and none on top of another.
//
//   const Timeline timeline = ArrangeRows(trace);
//   for (const TimelineRow& row : timeline.rows) {
//     for (std::size_t i = row.begin; i < row.end; ++i) Draw(trace, timeline.events[i]);
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "traces/trace.pb.h"

namespace twinstep {

struct TimelineRow {
  std::uint32_t rank = 0;  // Index into the trace's ranks, and of its lanes.
  std::uint32_t lane = 0;
  std::size_t begin = 0, end = 0;  // Into Timeline::events.
};

struct Timeline {
  std::vector<TimelineRow> rows;           // By rank, then lane.
  std::vector<int> events;                 // Of the trace, row by row.
  std::vector<std::uint8_t> time_classes;  // By event of the trace: TimeClass, as a number, or:
};

// What TimeClass cannot say of imported traces: work of no known kind, communication of unknown
// dimension.
inline constexpr std::uint8_t kOtherTimeClass = 8;
inline constexpr std::uint8_t kCommunicationTimeClass = 9;

// Expects a trace that TraceProblem finds nothing wrong with.
Timeline ArrangeRows(const Trace& trace);

}  // namespace twinstep
