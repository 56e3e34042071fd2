// Times of plans' primitives on a GPU, in warm steady state: a few layers of the model train again
// and again, alone and beside copies, so that clocks, caches and the order of operations are those
// of a training; what they do not have (other copies, optimizer tasks of other sizes) runs by
// itself behind them. What plans share is measured once: layers only where they have operators that
// no layers before have.
//
//   Result<GpuSamples> samples =
//       MeasureGpuPlans(model, {{&cluster, &plan}}, {.make_backend = ..., .seconds = 10});
#pragma once

#include <vector>

#include "exec/profile/gpu_measure_options.h"
#include "exec/profile/gpu_samples.h"
#include "model_zoo/model.pb.h"
#include "sim/result.h"

namespace twinstep {

// At least one plan. Of all ranks, each on a GPU of its own; of pipelines one stage. An Error (kNo)
// where a layer does not fit the GPU, or GPUs are missing.
Result<GpuSamples> MeasureGpuPlans(const Model& model, const std::vector<GpuPlan>& plans,
                                   const GpuMeasureOptions& options);

}  // namespace twinstep
