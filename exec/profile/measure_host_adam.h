// A phase of a measurement on a GPU: updates of CPU Adam beside layers and copies.
//
//   if (const Status done = MeasureHostAdam(&gpu); !done.ok()) return done;
#pragma once

#include "exec/profile/gpu_measurement.h"
#include "sim/result.h"

namespace twinstep {

// After copies. Adam always runs beside the GPU's work, whose dispatcher needs a core, too; the
// copies that run beside it are measured as well. Nothing where no plan has an optimizer.
Status MeasureHostAdam(GpuMeasurement* gpu);

}  // namespace twinstep
