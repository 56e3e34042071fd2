// A phase of a measurement on a GPU: operators of the plans that their few layers have not, such as
// optimizer tasks of other sizes.
//
//   if (const Status done = MeasureOtherOperators(&gpu); !done.ok()) return done;
#pragma once

#include "exec/profile/gpu_measurement.h"
#include "sim/result.h"

namespace twinstep {

// After the layers. Each by itself, as many at once as a part of the GPU's memory holds.
Status MeasureOtherOperators(GpuMeasurement* gpu);

}  // namespace twinstep
