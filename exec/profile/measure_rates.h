// A phase of a measurement on a GPU: what stands for operators that no profile has.
//
//   if (const Status done = MeasureRates(&gpu); !done.ok()) return done;
#pragma once

#include "exec/profile/gpu_measurement.h"
#include "sim/result.h"

namespace twinstep {

// A large product and a large copy on the device, and what launching costs.
Status MeasureRates(GpuMeasurement* gpu);

}  // namespace twinstep
