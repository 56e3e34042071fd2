// Sets of time: disjoint half-open intervals in ascending order.
#pragma once

#include <vector>

#include "sim/cost/graph_costs.h"

namespace twinstep {

struct Interval {
  Picoseconds begin = 0, end = 0;
  bool operator==(const Interval&) const = default;
};

//   IntervalSet busy({{0, 10}, {5, 20}});        // [0, 20)
//   Picoseconds exposed = busy.Length() - busy.Overlap(compute);
class IntervalSet {
 public:
  IntervalSet() = default;
  // Intervals in any order, overlapping or empty ones too. O(n) if they are ordered by begin.
  explicit IntervalSet(std::vector<Interval> intervals);

  const std::vector<Interval>& intervals() const { return intervals_; }
  Picoseconds Length() const;
  // Time that both sets cover, O(n + m).
  Picoseconds Overlap(const IntervalSet& other) const;
  // Time of one interval that the set covers, O(log n + intervals that it meets).
  Picoseconds Overlap(const Interval& interval) const;
  IntervalSet Union(const IntervalSet& other) const;

 private:
  std::vector<Interval> intervals_;
};

}  // namespace twinstep
