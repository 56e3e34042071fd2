// Values of a training step as kernels read them from device memory.
//
//   DeviceStep step = MakeDeviceStep(values);
//   cudaMemcpyAsync(device_step, &step, sizeof step, cudaMemcpyHostToDevice, stream);
#pragma once

#include <array>
#include <cstdint>

#include "exec/runtime/step_values.h"

namespace twinstep::cuda {

struct DeviceStep {
  // AdamW (Loshchilov and Hutter 2019): w = keep w - step_size m / (sqrt(v) inverse_correction2 +
  // epsilon), with both bias corrections inside.
  double beta1, beta2, rest1, rest2, step_size, inverse_correction2, epsilon, keep;
  double clip_norm;
  // Dropout, hidden layers and attention probabilities: a draw of 32 bits below `threshold` drops;
  // what is kept is multiplied with `scale`.
  std::array<std::uint64_t, 2> threshold;
  std::array<double, 2> scale;
  std::uint64_t seed;
  std::int64_t step;
};

DeviceStep MakeDeviceStep(const StepValues& values);

}  // namespace twinstep::cuda
