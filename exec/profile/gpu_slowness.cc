#include "exec/profile/gpu_slowness.h"

#include <algorithm>
#include <numeric>

#include "exec/profile/statistics.h"

namespace twinstep {
namespace {

constexpr double kMostApart = 10;

double Mean(GpuSlowness::const_iterator begin, GpuSlowness::const_iterator end) {
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

}  // namespace

GpuSlowness SlownessOf(const std::vector<std::vector<double>>& times_s) {
  if (times_s.size() < 2) return {};
  GpuSlowness medians;
  for (const std::vector<double>& of_gpu : times_s) medians.push_back(Summarize(of_gpu).median);
  const auto [least, most] = std::ranges::minmax(medians);
  if (!(least > 0) || most > kMostApart * least) return {};
  const double mean = Mean(medians.begin(), medians.end());
  for (double& median : medians) median /= mean;
  return medians;
}

GpuSlowness MeanSlowness(const std::vector<GpuSlowness>& measured) {
  if (measured.empty()) return {};
  GpuSlowness mean(measured.front().size());
  for (const GpuSlowness& one : measured) {
    for (std::size_t gpu = 0; gpu < mean.size(); ++gpu) {
      mean[gpu] += one[gpu] / static_cast<double>(measured.size());
    }
  }
  return mean;
}

double SlownessOfFirst(const GpuSlowness& slowness, std::size_t gpus) {
  if (slowness.empty()) return 1;
  return Mean(slowness.begin(),
              slowness.begin() + static_cast<std::ptrdiff_t>(std::min(gpus, slowness.size())));
}

}  // namespace twinstep
