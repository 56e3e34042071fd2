// The learning rate of each step: linear warm-up, then half a cosine down to a minimum (Loshchilov
// and Hutter, 2017, without restarts).
#pragma once

#include <cstdint>

namespace twinstep {

struct LearningRateSchedule {
  double peak = 1e-3;
  double minimum = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t steps = 1;  // Of the whole training.
};

// Of step 0, 1, ...: peak / warmup_steps in the first step, the peak in the last of the warm-up,
// the minimum in the last step of the training and in any later one.
double LearningRate(const LearningRateSchedule& schedule, std::int64_t step);

}  // namespace twinstep
