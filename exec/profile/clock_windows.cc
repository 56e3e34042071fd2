#include "exec/profile/clock_windows.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "exec/profile/statistics.h"

namespace twinstep {

double SteadySlowness(const std::vector<ClockWindow>& windows) {
  std::vector<double> slowness;
  for (std::size_t i = windows.size() / 2; i < windows.size(); ++i) {
    slowness.push_back(windows[i].Slowness());
  }
  return Summarize(std::move(slowness)).median;
}

double FastSeconds(const std::vector<ClockWindow>& windows, double fast, double slow) {
  double fast_s = 0;
  for (const ClockWindow& window : windows) {
    if (window.Slowness() >= slow) break;
    // Of x seconds at `fast`: steady_s = x / fast + (seconds - x) / slow.
    const double x = (window.steady_s - window.seconds / slow) / (1 / fast - 1 / slow);
    fast_s += std::min(x, window.seconds);
  }
  return fast_s;
}

}  // namespace twinstep
