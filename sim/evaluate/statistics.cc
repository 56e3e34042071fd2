#include "sim/evaluate/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace twinstep {
namespace {

// Ranks from 0, equal values sharing their mean.
std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i + 1;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    const double mean = 0.5 * static_cast<double>(i + end - 1);
    for (; i < end; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

double Correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (xx == 0 || yy == 0) return std::numeric_limits<double>::quiet_NaN();
  return xy / std::sqrt(xx * yy);
}

}  // namespace

ErrorSummary Summarize(std::span<const Pair> pairs) {
  ErrorSummary summary;
  summary.count = pairs.size();
  if (pairs.empty()) return summary;
  std::vector<double> errors;
  for (const Pair& pair : pairs) {
    errors.push_back(std::abs(pair.Error()));
    summary.bias += pair.Error();
  }
  std::sort(errors.begin(), errors.end());
  const auto n = static_cast<double>(errors.size());
  const std::size_t middle = errors.size() / 2;
  summary.median =
      errors.size() % 2 == 1 ? errors[middle] : 0.5 * (errors[middle - 1] + errors[middle]);
  summary.worst = errors.back();
  summary.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / n;
  summary.bias /= n;
  return summary;
}

double Spearman(std::span<const Pair> pairs) {
  if (pairs.size() < 3) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> predicted, measured;
  for (const Pair& pair : pairs) {
    predicted.push_back(pair.predicted);
    measured.push_back(pair.measured);
  }
  return Correlation(Ranks(predicted), Ranks(measured));
}

PairOrder CountOrder(std::span<const Pair> pairs, double least_difference) {
  PairOrder order;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (std::size_t j = i + 1; j < pairs.size(); ++j) {
      const bool i_is_smaller = pairs[i].measured < pairs[j].measured;
      const Pair& small = i_is_smaller ? pairs[i] : pairs[j];
      const Pair& large = i_is_smaller ? pairs[j] : pairs[i];
      if (large.measured <= small.measured * (1 + least_difference)) continue;
      ++order.total;
      if (small.predicted < large.predicted) ++order.right;
    }
  }
  return order;
}

}  // namespace twinstep
