#include "exec/runtime/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace twinstep {

double LearningRate(const LearningRateSchedule& schedule, std::int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  // The peak is the step before the first of the descent, or step 0 without a warm-up.
  const std::int64_t top = std::max<std::int64_t>(schedule.warmup_steps - 1, 0);
  const std::int64_t last = schedule.steps - 1;
  if (step >= last) return last > top ? schedule.minimum : schedule.peak;
  const double done = static_cast<double>(step - top) / static_cast<double>(last - top);
  const double share = (1 + std::cos(std::numbers::pi * done)) / 2;
  return schedule.minimum + (schedule.peak - schedule.minimum) * share;
}

}  // namespace twinstep
