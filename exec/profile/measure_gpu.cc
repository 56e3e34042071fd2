#include "exec/profile/measure_gpu.h"

#include <utility>

#include "exec/profile/gpu_measurement.h"
#include "exec/profile/measure_collectives.h"
#include "exec/profile/measure_copies.h"
#include "exec/profile/measure_host_adam.h"
#include "exec/profile/measure_layers.h"
#include "exec/profile/measure_operators.h"
#include "exec/profile/measure_rates.h"
#include "exec/profile/measure_rests.h"

namespace twinstep {

Result<GpuSamples> MeasureGpuPlans(const Model& model, const std::vector<GpuPlan>& plans,
                                   const GpuMeasureOptions& options) {
  GpuMeasurement gpu(model, plans, options);
  if (const Status lowered = gpu.LowerAll(); !lowered.ok()) return lowered.error();
  constexpr Status (*kPhases[])(GpuMeasurement*) = {
      MeasureLayersAlone, MeasureOtherOperators,     MeasureCollectives,
      MeasureCopies,      MeasureLayersBesideCopies, MeasureLayersBesideCollectives,
      MeasureRests,       MeasureHostAdam,           MeasureRates};
  for (const auto phase : kPhases) {
    if (const Status done = phase(&gpu); !done.ok()) return done.error();
  }
  return std::move(gpu.samples());
}

}  // namespace twinstep
