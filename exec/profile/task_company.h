// How much company tasks had: how many of the others ran at the same time.
//
//   TaskCompany company(times);                    // Of one iteration, each thread's work once.
//   double others = company.Of({start_ns, end_ns});   // 0.5: another one ran half of the time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/runtime/backend.h"

namespace twinstep {

class TaskCompany {
 public:
  explicit TaskCompany(std::span<const TaskTime> times);

  // Mean number of other tasks that ran while one of `times` did. 0 if it took no time.
  double Of(const TaskTime& time) const;
  // The same of a task that is none of `times`.
  double OfOther(const TaskTime& time) const;

 private:
  // Moments in order, and their sums: the work that was done until `ns` is a difference of two
  // lookups.
  struct Moments {
    std::vector<std::int64_t> ns;
    std::vector<double> sum;  // Of the first i.
    // Sum of (ns - moment) of the moments before.
    double Until(std::int64_t at) const;
  };
  static Moments Sorted(std::vector<std::int64_t> ns);

  Moments starts_, ends_;
};

}  // namespace twinstep
