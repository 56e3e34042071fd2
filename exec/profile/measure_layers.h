// First phase of a measurement on a GPU: the few layers of each plan, again and again, by
// themselves; those of few ranks on all GPUs at once (layer_copies.h).
//
//   if (const Status done = MeasureLayersAlone(&gpu); !done.ok()) return done;
#pragma once

#include "exec/profile/gpu_measurement.h"
#include "sim/result.h"

namespace twinstep {

// Adds what operators take alone, and collectives that run between them; where layers overlap both,
// what they take beside each other. Sets the speed of layers, their graphs, and the memory that
// kernels and the driver take.
Status MeasureLayersAlone(GpuMeasurement* gpu);

}  // namespace twinstep
