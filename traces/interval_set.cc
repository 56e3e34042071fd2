#include "traces/interval_set.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace twinstep {
namespace {

bool BeginsBefore(const Interval& a, const Interval& b) { return a.begin < b.begin; }

}  // namespace

IntervalSet::IntervalSet(std::vector<Interval> intervals) {
  if (!std::is_sorted(intervals.begin(), intervals.end(), BeginsBefore)) {
    std::sort(intervals.begin(), intervals.end(), BeginsBefore);
  }
  for (const Interval& next : intervals) {
    if (next.end <= next.begin) continue;
    if (!intervals_.empty() && next.begin <= intervals_.back().end) {
      intervals_.back().end = std::max(intervals_.back().end, next.end);
    } else {
      intervals_.push_back(next);
    }
  }
}

Picoseconds IntervalSet::Length() const {
  Picoseconds length = 0;
  for (const Interval& x : intervals_) length += x.end - x.begin;
  return length;
}

Picoseconds IntervalSet::Overlap(const IntervalSet& other) const {
  Picoseconds overlap = 0;
  std::size_t i = 0, j = 0;
  while (i < intervals_.size() && j < other.intervals_.size()) {
    const Interval& a = intervals_[i];
    const Interval& b = other.intervals_[j];
    overlap += std::max<Picoseconds>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
    if (a.end < b.end) {
      ++i;
    } else {
      ++j;
    }
  }
  return overlap;
}

Picoseconds IntervalSet::Overlap(const Interval& interval) const {
  Picoseconds overlap = 0;
  auto x = std::partition_point(intervals_.begin(), intervals_.end(),
                                [&](const Interval& other) { return other.end <= interval.begin; });
  for (; x != intervals_.end() && x->begin < interval.end; ++x) {
    overlap += std::min(x->end, interval.end) - std::max(x->begin, interval.begin);
  }
  return overlap;
}

IntervalSet IntervalSet::Union(const IntervalSet& other) const {
  std::vector<Interval> all;
  all.reserve(intervals_.size() + other.intervals_.size());
  std::merge(intervals_.begin(), intervals_.end(), other.intervals_.begin(), other.intervals_.end(),
             std::back_inserter(all), BeginsBefore);
  return IntervalSet(std::move(all));
}

}  // namespace twinstep
