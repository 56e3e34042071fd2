// Times of the primitives of a plan: iterations on one thread (each task alone), and on as many
// threads at once as the backend has, each with ranks and memory of its own (every core busy with
// the like, so that caches and DRAM are shared).
//
//   PrimitiveSamples samples;
//   Status done = MeasurePlan(lowered, {.threads = 2, .seconds = 5}, &samples);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "exec/profile/primitive.h"
#include "exec/profile/serial_run.h"
#include "sim/result.h"

namespace twinstep {

struct PrimitiveTimes {
  std::vector<double> alone_s, busy_s;
};

struct PrimitiveSamples {
  std::map<Primitive, PrimitiveTimes> times;
  // Between the end of a task and the begin of the next on the same thread.
  std::vector<double> gap_s;
};

struct MeasureOptions {
  int threads = 1;     // That are busy at once; 1: nothing is measured under load.
  double seconds = 5;  // To spend; a plan whose iterations take longer gets its few iterations.
  // Told the share (0 to 1) that is done.
  std::function<void(double)> progress = {};
};

// Adds to `samples`, which may hold other plans' times. An Error (kNo) names rank and pool where
// one run does not fit into memory.
Status MeasurePlan(const LoweredPlan& lowered, const MeasureOptions& options,
                   PrimitiveSamples* samples);

}  // namespace twinstep
