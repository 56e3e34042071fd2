#include "traces/kineto/span_matcher.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace twinstep {

MatchedSpans SpanMatcher::Run() {
  std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) {
    return a.track != b.track ? a.track < b.track : a.time_ns < b.time_ns;
  });
  MatchedSpans out;
  std::vector<Mark> open;
  const auto leave = [&] {
    for (const Mark& mark : open) out.unended.push_back(mark.span);
    open.clear();
  };
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    const Mark& mark = marks_[i];
    if (i > 0 && mark.track != marks_[i - 1].track) leave();
    if (mark.span != kNoIndex) {
      open.push_back(mark);
      continue;
    }
    const auto begin = std::find_if(open.rbegin(), open.rend(), [&mark](const Mark& other) {
      return mark.name == kNoIndex || other.name == mark.name;
    });
    if (begin == open.rend()) {
      out.unbegun.push_back(mark.name);
      continue;
    }
    out.matched.push_back({begin->span, begin->time_ns, mark.time_ns});
    open.erase(std::prev(begin.base()));
  }
  leave();
  return out;
}

std::vector<std::uint32_t> SpreadOverLanes(const std::vector<MatchedSpan>& by_start) {
  using Busy = std::pair<std::int64_t, std::uint32_t>;  // Until when, lane.
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free;
  std::uint32_t lanes = 0;
  std::vector<std::uint32_t> lane_of;
  for (const MatchedSpan& span : by_start) {
    while (!busy.empty() && busy.top().first <= span.start_ns) {
      free.push(busy.top().second);
      busy.pop();
    }
    if (free.empty()) free.push(lanes++);
    lane_of.push_back(free.top());
    free.pop();
    busy.push({span.end_ns, lane_of.back()});
  }
  return lane_of;
}

}  // namespace twinstep
