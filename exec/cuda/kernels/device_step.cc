#include "exec/cuda/kernels/device_step.h"

#include <algorithm>
#include <cmath>

namespace twinstep::cuda {

DeviceStep MakeDeviceStep(const StepValues& values) {
  const auto t = static_cast<double>(values.step + 1);
  const auto threshold = [](double probability) {
    return static_cast<std::uint64_t>(std::llround(std::clamp(probability, 0.0, 1.0) * 0x1p32));
  };
  const auto scale = [](double probability) { return probability < 1 ? 1 / (1 - probability) : 0; };
  return {.beta1 = values.beta1,
          .beta2 = values.beta2,
          .rest1 = 1 - values.beta1,
          .rest2 = 1 - values.beta2,
          .step_size = values.learning_rate / (1 - std::pow(values.beta1, t)),
          .inverse_correction2 = 1 / std::sqrt(1 - std::pow(values.beta2, t)),
          .epsilon = values.epsilon,
          .keep = 1 - values.learning_rate * values.weight_decay,
          .clip_norm = values.clip_norm,
          .threshold = {threshold(values.hidden_dropout), threshold(values.attention_dropout)},
          .scale = {scale(values.hidden_dropout), scale(values.attention_dropout)},
          .seed = values.seed,
          .step = values.step};
}

}  // namespace twinstep::cuda
