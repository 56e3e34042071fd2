// Two phases of a measurement on GPUs: collectives and messages by size, and layers beside
// collectives.
//
//   if (const Status done = MeasureCollectives(&gpus); !done.ok()) return done;
//   if (const Status done = MeasureLayersBesideCollectives(&gpus); !done.ok()) return done;
#pragma once

#include "exec/profile/gpu_measurement.h"
#include "sim/result.h"

namespace twinstep {

// After the layers: of the plans, of other sizes, and those that the second phase needs. Nothing
// where plans have one GPU.
Status MeasureCollectives(GpuMeasurement* gpu);

// After all that is alone: the plans' collectives, and others, each of which begins where an
// operator of the layers ends, and what these take beside it (collective_overlap.h). Where layers
// have such times of their own, these stay.
Status MeasureLayersBesideCollectives(GpuMeasurement* gpu);

}  // namespace twinstep
