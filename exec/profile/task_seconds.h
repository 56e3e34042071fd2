// Times of tasks, which backends give in nanoseconds, in seconds.
#pragma once

#include "exec/runtime/backend.h"

namespace twinstep {

inline constexpr double kSecondsPerNanosecond = 1e-9;

inline double Seconds(const TaskTime& time) {
  return static_cast<double>(time.end_ns - time.start_ns) * kSecondsPerNanosecond;
}

}  // namespace twinstep
