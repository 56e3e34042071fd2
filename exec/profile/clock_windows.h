// How long a GPU computed at high clocks, from speeds of one window after another.
//
//   std::vector<ClockWindow> windows = ...;        // Since a rest.
//   const double slow = SteadySlowness(windows);   // The second half is steady.
//   const double fast_s = FastSeconds(windows, windows.front().Slowness(), slow);
#pragma once

#include <vector>

namespace twinstep {

struct ClockWindow {
  // Of computing, and what the same operators take in steady state.
  double seconds = 0, steady_s = 0;
  double Slowness() const { return steady_s > 0 ? seconds / steady_s : 1; }
};

// Of the second half of the windows, the median.
double SteadySlowness(const std::vector<ClockWindow>& windows);

// Until a window is no faster than `slow`: time of computing at slowness `fast`, if what is not so
// is computed at `slow`. A window that is in part at either counts in part. Needs fast < slow.
double FastSeconds(const std::vector<ClockWindow>& windows, double fast, double slow);

}  // namespace twinstep
