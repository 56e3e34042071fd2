#include "exec/profile/measure_rates.h"

#include <array>
#include <cstdint>
#include <utility>

#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/repeated_run.h"
#include "sim/graph/op.h"

namespace twinstep {
namespace {

constexpr std::int64_t kTinyBytes = 1024;

}  // namespace

Status MeasureRates(GpuMeasurement* gpu) {
  gpu->BeginPhase("rates");
  ProbeGraph probes;
  OpShape product{.op = OpCode::kGemmForward, .dtype = Dtype::kBf16};
  product.dims = {gpu->sizes().product, gpu->sizes().product, gpu->sizes().product};
  const std::int64_t matrix =
      gpu->sizes().product * gpu->sizes().product * DtypeBytes(Dtype::kBf16);
  probes.AddOperator(product, std::array{matrix, matrix}, std::array{matrix}, kProbeRepeats);
  const auto copy = [](std::int64_t bytes) {
    OpShape shape{.op = OpCode::kCopyOnDevice, .dtype = Dtype::kBf16};
    shape.dims[0] = bytes;
    return shape;
  };
  const std::int64_t device_bytes = gpu->sizes().device_copy_bytes;
  probes.AddOperator(copy(device_bytes), std::array{device_bytes}, std::array{device_bytes},
                     kProbeRepeats);
  Means means;
  const Status measured =
      gpu->Runs().MeasureAlone(std::move(probes), gpu->Share(kRatesShare, 2), &means);
  if (!measured.ok()) return measured;
  const double product_s = MedianOf(means, {.shape = WorkShape(product)});
  const double copy_s = MedianOf(means, {.shape = WorkShape(copy(gpu->sizes().device_copy_bytes))});
  gpu->samples().bf16_flops_per_s = Flops(product) / product_s;
  gpu->samples().memory_bytes_per_s =
      2 * static_cast<double>(gpu->sizes().device_copy_bytes) / copy_s;

  // So small that only their launching takes time.
  ProbeGraph tiny;
  tiny.AddOperator(copy(kTinyBytes), std::array{kTinyBytes}, std::array{kTinyBytes},
                   gpu->sizes().launches);
  Means tiny_means;
  const Status done =
      gpu->Runs().MeasureAlone(std::move(tiny), gpu->Share(kRatesShare, 2), &tiny_means);
  gpu->samples().dispatch_s = MedianOf(tiny_means, {.shape = WorkShape(copy(kTinyBytes))});
  return done;
}

}  // namespace twinstep
