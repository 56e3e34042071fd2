// One number for many measurements of the same thing.
//
//   const Summary summary = Summarize({1.0, 1.1, 0.9, 25.0});   // median 1, 3 kept, 1 dropped
#pragma once

#include <cstddef>
#include <vector>

namespace twinstep {

struct Summary {
  double median = 0, mean = 0;
  double relative_spread = 0;  // Inter-quartile range over the median.
  std::size_t kept = 0, dropped = 0;
};

// The value below which a share `q` (0 to 1) of the sorted `values` lies; between two of them a
// straight line (the definition of R's type 7, NumPy's default). `values` must not be empty.
double Quantile(const std::vector<double>& values, double q);

// Drops outliers by Tukey's rule, more than 1.5 inter-quartile ranges outside of the quartiles, and
// summarises the rest. All zero if `values` is empty.
Summary Summarize(std::vector<double> values);

// To as many significant digits: of a measurement more are noise. 0 stays 0.
inline constexpr int kMeasuredDigits = 5;
double RoundMeasured(double value);

}  // namespace twinstep
