// Cells of the tables that compare two traces.
#pragma once

#include <optional>
#include <string>

#include "sim/format.h"
#include "traces/compare.h"

namespace twinstep {

// A fraction with its sign: "+1.5 %", "-" where there is none.
std::string SignedPercent(std::optional<double> fraction);

// Seconds of the iteration's size.
class TimeCells {
 public:
  explicit TimeCells(const TimePair& iteration);

  const char* unit() const { return unit_.name; }
  // "12.345"; "-" for no time at all.
  std::string operator()(double seconds) const;
  // "+0.123".
  std::string Difference(const TimePair& time) const;
  // The difference as a share of B's iteration: "+1.5 %".
  std::string ShareOfIteration(const TimePair& time) const;

 private:
  TableUnit unit_;
  double iteration_s_;
};

}  // namespace twinstep
