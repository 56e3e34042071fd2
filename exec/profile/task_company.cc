#include "exec/profile/task_company.h"

#include <algorithm>
#include <utility>

namespace twinstep {

TaskCompany::Moments TaskCompany::Sorted(std::vector<std::int64_t> ns) {
  std::sort(ns.begin(), ns.end());
  Moments moments{.ns = std::move(ns), .sum = {0}};
  for (const std::int64_t moment : moments.ns) {
    moments.sum.push_back(moments.sum.back() + static_cast<double>(moment));
  }
  return moments;
}

double TaskCompany::Moments::Until(std::int64_t at) const {
  const auto before =
      static_cast<std::size_t>(std::lower_bound(ns.begin(), ns.end(), at) - ns.begin());
  return static_cast<double>(before) * static_cast<double>(at) - sum[before];
}

TaskCompany::TaskCompany(std::span<const TaskTime> times) {
  std::vector<std::int64_t> starts, ends;
  for (const TaskTime& time : times) {
    starts.push_back(time.start_ns);
    ends.push_back(time.end_ns);
  }
  starts_ = Sorted(std::move(starts));
  ends_ = Sorted(std::move(ends));
}

double TaskCompany::Of(const TaskTime& time) const { return std::max(0.0, OfOther(time) - 1); }

double TaskCompany::OfOther(const TaskTime& time) const {
  const auto duration = static_cast<double>(time.end_ns - time.start_ns);
  if (duration <= 0) return 0;
  const auto work = [this](std::int64_t at) { return starts_.Until(at) - ends_.Until(at); };
  return (work(time.end_ns) - work(time.start_ns)) / duration;
}

}  // namespace twinstep
