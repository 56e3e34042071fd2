// A trace as the page of traces/show/page reads it: a small JSON object of names, rows and counts,
// and its columns in one packed string.
//
// The columns, one entry an event in the order of the rows: start (distance to the one before in
// its row), duration, start - ready, task (distance), kind, phase, op, time class, shape,
// micro-batch, stage, block, chunk (each plus one; 0: none), bytes. Then the places of the events
// of the critical path (distances). Where the trace knows its graph: how many dependencies each
// event has, these (distances of places, event by event), and its rendezvous (distance). Then each
// memory curve: times and bytes (distances). What has no sign is unsigned.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/result.h"
#include "traces/trace.pb.h"

namespace twinstep {

struct PageTrace {
  nlohmann::ordered_json meta;
  std::string columns;
};

// An Error (kBadInput) says what of the trace cannot be used.
Result<PageTrace> ToPageTrace(const Trace& trace);

}  // namespace twinstep
