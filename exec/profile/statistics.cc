#include "exec/profile/statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace twinstep {
namespace {

constexpr double kTukeyFence = 1.5;

}  // namespace

double Quantile(const std::vector<double>& values, double q) {
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double part = at - static_cast<double>(below);
  return values[below] + (values[above] - values[below]) * part;
}

Summary Summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double low = Quantile(values, 0.25), high = Quantile(values, 0.75);
  const double fence = kTukeyFence * (high - low);
  std::vector<double> kept;
  std::copy_if(values.begin(), values.end(), std::back_inserter(kept),
               [&](double x) { return x >= low - fence && x <= high + fence; });
  // Values that rounding tells apart may all lie beside their quartiles.
  if (kept.empty()) kept = values;
  Summary summary{
      .median = Quantile(kept, 0.5),
      .mean = std::accumulate(kept.begin(), kept.end(), 0.0) / static_cast<double>(kept.size()),
      .kept = kept.size(),
      .dropped = values.size() - kept.size()};
  if (summary.median > 0) {
    summary.relative_spread = (Quantile(kept, 0.75) - Quantile(kept, 0.25)) / summary.median;
  }
  return summary;
}

double RoundMeasured(double value) {
  if (!(value > 0)) return 0;
  // Powers of ten are exact above 1 only.
  const double digits = std::floor(std::log10(value)) - (kMeasuredDigits - 1);
  const double unit = std::pow(10, std::abs(digits));
  return digits > 0 ? std::round(value / unit) * unit : std::round(value * unit) / unit;
}

}  // namespace twinstep
