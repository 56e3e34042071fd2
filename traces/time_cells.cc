#include "traces/time_cells.h"

#include <algorithm>
#include <cmath>

namespace twinstep {

std::string SignedPercent(std::optional<double> fraction) {
  if (!fraction) return "-";
  if (std::abs(*fraction) < 0.0005) return Percent(0);
  return (*fraction > 0 ? "+" : "") + Percent(*fraction);
}

TimeCells::TimeCells(const TimePair& iteration)
    : unit_(SecondsUnit(std::max(iteration.a_s, iteration.b_s))), iteration_s_(iteration.b_s) {}

std::string TimeCells::operator()(double seconds) const {
  return seconds == 0 ? "-" : Fixed(seconds / unit_.size, 3);
}

std::string TimeCells::Difference(const TimePair& time) const {
  const double value = time.Difference() / unit_.size;
  if (std::abs(value) < 0.0005) return Fixed(0, 3);
  return (value > 0 ? "+" : "") + Fixed(value, 3);
}

std::string TimeCells::ShareOfIteration(const TimePair& time) const {
  if (iteration_s_ == 0) return "-";
  return SignedPercent(time.Difference() / iteration_s_);
}

}  // namespace twinstep
