// A phase of a measurement on a GPU: clocks after a rest, and layers at these.
//
//   if (const Status done = MeasureRests(&gpu); !done.ok()) return done;
#pragma once

#include "exec/profile/gpu_measurement.h"
#include "sim/result.h"

namespace twinstep {

// After layers and copies. Operators alone and, those of plans that have copies, beside copies up,
// down and both ways: at low clocks these hardly slow a GPU that its power limits, at high ones
// they do. Nothing but ClockTimes where a rest changes nothing.
Status MeasureRests(GpuMeasurement* gpu);

}  // namespace twinstep
