// Two phases of a measurement on a GPU: copies between GPU and host by size, alone and both ways;
// and layers beside copies.
//
//   if (const Status done = MeasureCopies(&gpu); !done.ok()) return done;
//   if (const Status done = MeasureLayersBesideCopies(&gpu); !done.ok()) return done;
#pragma once

#include <cstdint>

#include "exec/profile/gpu_measurement.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// Of the plans' sizes and others, one direction and both, and of several GPUs at once.
Status MeasureCopies(GpuMeasurement* gpu);

// After both. Operators beside copies up, down and both ways, and these copies.
Status MeasureLayersBesideCopies(GpuMeasurement* gpu);

// After MeasureCopies: on each rank so many copies of ProbeSizes::beside_bytes, of one direction or
// both, as take `seconds`.
TaskGraph CopiesBeside(const GpuMeasurement& gpu, std::uint32_t ranks, bool h2d, bool d2h,
                       double seconds);

}  // namespace twinstep
