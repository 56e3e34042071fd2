#include "traces/kineto/span_matcher.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

namespace twinstep {

MatchedSpans SpanMatcher::Run() {
  std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) {
    return a.track != b.track ? a.track < b.track : a.time_ns < b.time_ns;
  });
  MatchedSpans out;
  std::vector<std::uint32_t> open;  // Marks; the last is not closed, others may be.
  std::vector<bool> is_closed(marks_.size(), false);
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> open_of_name;
  const auto leave = [&] {
    for (const std::uint32_t i : open) {
      if (!is_closed[i]) out.unended.push_back(marks_[i].span);
    }
    open.clear();
    open_of_name.clear();
  };
  for (std::uint32_t i = 0; i < marks_.size(); ++i) {
    const Mark& mark = marks_[i];
    if (i > 0 && mark.track != marks_[i - 1].track) leave();
    if (mark.span != kNoIndex) {
      open.push_back(i);
      open_of_name[mark.name].push_back(i);
      continue;
    }
    const std::uint32_t name =
        mark.name == kNoIndex && !open.empty() ? marks_[open.back()].name : mark.name;
    const auto begins = open_of_name.find(name);
    if (begins == open_of_name.end() || begins->second.empty()) {
      out.unbegun.push_back(mark.name);
      continue;
    }
    const Mark& begin = marks_[begins->second.back()];
    out.matched.push_back({begin.span, begin.time_ns, mark.time_ns});
    is_closed[begins->second.back()] = true;
    begins->second.pop_back();
    while (!open.empty() && is_closed[open.back()]) open.pop_back();
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
