#include "exec/profile/lane_delays.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "exec/profile/statistics.h"
#include "exec/profile/task_seconds.h"

namespace twinstep {
namespace {

double MedianSeconds(const std::vector<double>& times_ns) {
  if (times_ns.empty()) return 0;
  return std::max(0.0, Summarize(times_ns).median) * kSecondsPerNanosecond;
}

}  // namespace

LaneDelays::LaneDelays(const TaskGraph& graph)
    : graph_(graph),
      others_(graph.TaskCount()),
      before_(graph.TaskCount(), kNone),
      members_(graph.rendezvous.size()) {
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    std::array<TaskId, kLaneCount> last;
    last.fill(kNone);
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      const Task& task = graph.tasks[id];
      TaskId& before = last[static_cast<std::size_t>(task.lane)];
      before_[id] = before;
      before = id;
      if (task.rendezvous != kNone) members_[task.rendezvous].push_back(id);
      for (const TaskId next : graph.Successors(id)) {
        if (graph.tasks[next].lane != task.lane) others_[next].push_back(id);
      }
    }
  }
  std::erase_if(members_, [](const auto& members) { return members.size() < 2; });
}

LaneDelays::Begin LaneDelays::BeginOf(TaskId id, const std::vector<TaskTime>& times) const {
  Begin begin{.start = static_cast<double>(times[id].start_ns)};
  if (before_[id] != kNone) begin.lane_end = static_cast<double>(times[before_[id]].end_ns);
  for (const TaskId other : others_[id]) {
    begin.other_end = std::max(begin.other_end, static_cast<double>(times[other].end_ns));
  }
  return begin;
}

void LaneDelays::AddIteration(const std::function<TaskTime(TaskId)>& time) {
  std::vector<TaskTime> times;
  for (TaskId id = 0; id < graph_.TaskCount(); ++id) times.push_back(time(id));
  for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
    if (graph_.tasks[id].rendezvous != kNone || others_[id].empty()) continue;
    const Begin begin = BeginOf(id, times);
    // Behind a later task of its own lane nothing of the handoff is seen.
    if (begin.other_end > begin.lane_end) handoffs_ns_.push_back(begin.start - begin.other_end);
  }
  for (const std::vector<TaskId>& members : members_) {
    std::vector<Begin>& begins = meetings_.emplace_back();
    for (const TaskId member : members) begins.push_back(BeginOf(member, times));
  }
}

double LaneDelays::HandoffSeconds() const { return MedianSeconds(handoffs_ns_); }

double LaneDelays::MeetingSeconds() const {
  const double handoff_ns = HandoffSeconds() / kSecondsPerNanosecond;
  std::vector<double> waits_ns;
  for (const std::vector<Begin>& begins : meetings_) {
    double least_ns = -1;
    for (const Begin& begin : begins) {
      // When the first tasks of an iteration could begin is not known.
      if (begin.lane_end < 0 && begin.other_end < 0) {
        least_ns = -1;
        break;
      }
      const double other_ns = begin.other_end < 0 ? -1 : begin.other_end + handoff_ns;
      const double wait_ns = std::max(0.0, begin.start - std::max(begin.lane_end, other_ns));
      least_ns = least_ns < 0 ? wait_ns : std::min(least_ns, wait_ns);
    }
    if (least_ns >= 0) waits_ns.push_back(least_ns);
  }
  return MedianSeconds(waits_ns);
}

}  // namespace twinstep
