#include "traces/show/dependencies.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

class PathFinder {
 public:
  PathFinder(const Trace& trace, const Timeline& timeline, const Dependencies& dependencies)
      : trace_(trace),
        timeline_(timeline),
        dependencies_(dependencies),
        first_of_row_(timeline.events.size(), false) {
    for (const TimelineRow& row : timeline.rows) {
      if (row.begin < row.end) first_of_row_[row.begin] = true;
    }
    for (std::uint32_t place = 0; place < timeline.events.size(); ++place) {
      const std::uint32_t number = trace.rendezvous(Event(place));
      if (number == 0) continue;
      const auto [last, is_new] = last_ready_.try_emplace(number, place);
      if (!is_new && Ready(place) > Ready(last->second)) last->second = place;
    }
  }

  std::vector<std::uint32_t> Find() const {
    std::vector<std::uint32_t> path;
    std::vector<bool> seen(timeline_.events.size(), false);
    std::optional<std::uint32_t> at = LastToEnd();
    while (at && !seen[*at]) {
      seen[*at] = true;
      path.push_back(*at);
      at = LatestBefore(StartedBy(*at));
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  int Event(std::uint32_t place) const { return timeline_.events[place]; }
  std::int64_t Ready(std::uint32_t place) const { return trace_.ready_ps(Event(place)); }
  std::int64_t End(std::uint32_t place) const { return trace_.end_ps(Event(place)); }

  std::optional<std::uint32_t> LastToEnd() const {
    std::optional<std::uint32_t> last;
    for (std::uint32_t place = 0; place < timeline_.events.size(); ++place) {
      if (!last || End(place) > End(*last)) last = place;
    }
    return last;
  }

  // The event itself, or the member of its rendezvous that it waited for.
  std::uint32_t StartedBy(std::uint32_t place) const {
    const std::uint32_t number = trace_.rendezvous(Event(place));
    if (number == 0) return place;
    const std::uint32_t last = last_ready_.at(number);
    return Ready(last) > Ready(place) ? last : place;
  }

  std::optional<std::uint32_t> LatestBefore(std::uint32_t place) const {
    std::optional<std::uint32_t> latest;
    if (!first_of_row_[place]) latest = place - 1;
    for (const std::uint32_t before : dependencies_.Before(place)) {
      if (!latest || End(before) > End(*latest)) latest = before;
    }
    return latest;
  }

  const Trace& trace_;
  const Timeline& timeline_;
  const Dependencies& dependencies_;
  std::vector<bool> first_of_row_;
  std::unordered_map<std::uint32_t, std::uint32_t> last_ready_;  // By number of a rendezvous.
};

}  // namespace

Result<std::optional<Dependencies>> Dependencies::Of(const Trace& trace, const Timeline& timeline) {
  const bool has_graph =
      trace.task_size() > 0 && !trace.dependency_count().empty() && !trace.rendezvous().empty();
  if (!has_graph) return std::optional<Dependencies>();
  std::unordered_map<std::int64_t, std::uint32_t> place_of_task;
  place_of_task.reserve(timeline.events.size());
  for (std::size_t place = 0; place < timeline.events.size(); ++place) {
    place_of_task.emplace(trace.task(timeline.events[place]), static_cast<std::uint32_t>(place));
  }
  std::vector<int> first(timeline.events.size() + 1, 0);
  for (std::size_t event = 0; event < timeline.events.size(); ++event) {
    first[event + 1] =
        first[event] + static_cast<int>(trace.dependency_count(static_cast<int>(event)));
  }
  Dependencies result;
  result.row_.push_back(0);
  for (const int event : timeline.events) {
    const auto index = static_cast<std::size_t>(event);
    for (int i = first[index]; i < first[index + 1]; ++i) {
      const std::int64_t task = std::int64_t{trace.task(event)} - trace.dependency(i);
      const auto found = place_of_task.find(task);
      if (found == place_of_task.end()) {
        return Error{.message = StrCat("task ", trace.task(event), " waits for task ", task,
                                       ", which the trace does not have")};
      }
      result.places_.push_back(found->second);
    }
    result.row_.push_back(result.places_.size());
  }
  return std::optional<Dependencies>(std::move(result));
}

std::vector<std::uint32_t> CriticalEvents(const Trace& trace, const Timeline& timeline,
                                          const Dependencies& dependencies) {
  return PathFinder(trace, timeline, dependencies).Find();
}

}  // namespace twinstep
