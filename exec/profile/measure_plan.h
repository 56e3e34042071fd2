// Times of the primitives of a plan, as they are where they stand in an iteration.
//
// Alone: iterations on one thread. Busy: all threads that the training will have at work, on the
// plan's ranks as in training (several plans side by side, where it has fewer ranks than there are
// threads), so that caches and DRAM are shared, and data come from where another core has put them.
// What joins ranks (collectives, messages) has its data from several threads by nature: both its
// times are of such runs, with little and with much company.
//
//   PrimitiveSamples samples;
//   Status done = MeasurePlan(lowered, {.threads = 2, .seconds = 5}, &samples);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "exec/profile/gpu_slowness.h"
#include "exec/profile/phase_times.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/primitive.h"
#include "sim/result.h"

namespace twinstep {

// A number an iteration: the mean of its tasks, without outliers.
struct PrimitiveTimes {
  std::vector<double> alone_s, busy_s;
  // On a GPU (measure_gpu.h). Operators beside copies, D2H only and both ways; collectives beside
  // operators; copies beside those the other way.
  std::vector<double> beside_d2h_s = {}, beside_copies_s = {};
  std::vector<double> beside_compute_s = {}, both_ways_s = {};
  // Operators beside copies H2D only, beside collectives, and after a rest.
  std::vector<double> beside_h2d_s = {}, beside_collective_s = {}, rested_s = {};
  // After a rest, beside copies H2D only, D2H only, and both ways.
  std::vector<double> rested_beside_h2d_s = {}, rested_beside_d2h_s = {};
  std::vector<double> rested_beside_copies_s = {};
  bool takes_turns = false;            // As CollectiveSample's (hw_specs/profile.proto).
  std::vector<double> lets_in_s = {};  // As OperatorSample's.
  // Of all GPUs at once, in each layers' runs that had them all. What else is here of a GPU is the
  // mean over all of them.
  std::vector<GpuSlowness> gpu_slowness = {};
};

struct PrimitiveSamples {
  std::map<Primitive, PrimitiveTimes> times;
  // Between the end of a task and the begin of the next on the same thread.
  std::vector<double> gap_s;
  // Fewest threads that were busy at once in a plan's busy runs; 0 = nothing was measured busy.
  int busy_threads = 0;
};

inline constexpr int kMeasuringRounds = 4;

struct MeasureOptions {
  int threads = 1;     // Of the training; 1: nothing is measured busy.
  double seconds = 5;  // To spend; a plan whose iterations take longer gets its few iterations.
  // Called at the begin of each of at most kMeasuringRounds rounds.
  std::function<void()> begin_round = {};
  PhaseTimes* phase_times = nullptr;  // Adds how long each phase took.
};

// Adds to `samples`, which may hold other plans' times. An Error (kNo) names rank and pool where
// a run does not fit into memory.
Status MeasurePlan(const LoweredPlan& lowered, const MeasureOptions& options,
                   PrimitiveSamples* samples);

}  // namespace twinstep
