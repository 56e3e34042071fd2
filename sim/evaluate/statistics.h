// How near predictions come to measurements.
#pragma once

#include <span>
#include <vector>

namespace twinstep {

// What was predicted and measured for one thing. Both are positive.
struct Pair {
  double predicted = 0, measured = 0;
  double Error() const { return predicted / measured - 1; }
};

struct ErrorSummary {
  std::size_t count = 0;
  double median = 0, worst = 0, mean = 0;  // Of |error|.
  double bias = 0;                         // Mean of the signed error.
};
ErrorSummary Summarize(std::span<const Pair> pairs);

// Rank correlation of predicted and measured, ties sharing their mean rank; NaN for fewer than
// three pairs or where all of one side are equal.
double Spearman(std::span<const Pair> pairs);

struct PairOrder {
  std::size_t right = 0, total = 0;
};
// Pairs of pairs whose measured values differ by more than `least_difference` (a fraction of the
// smaller) and which predictions put in the same order.
PairOrder CountOrder(std::span<const Pair> pairs, double least_difference);

}  // namespace twinstep
