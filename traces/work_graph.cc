#include "traces/work_graph.h"

#include <algorithm>
#include <unordered_map>

namespace twinstep {

void ExplainStarts(WorkGraph* work) {
  // When all that a task waits for had ended, as traced.
  std::vector<std::int64_t> ready_ps(work->tasks.size(), 0);
  std::unordered_map<std::uint64_t, std::int64_t> lane_end_ps;
  for (const auto& [from, to] : work->edges) {
    const WorkTask& task = work->tasks[from];
    ready_ps[to] = std::max(ready_ps[to], task.start_ps + task.duration_ps);
  }
  struct Meeting {
    std::int64_t ready_ps = 0, start_ps = 0, duration_ps = INT64_MAX;
  };
  std::vector<Meeting> meetings(work->rendezvous.size());
  for (std::size_t i = 0; i < work->tasks.size(); ++i) {
    const WorkTask& task = work->tasks[i];
    std::int64_t& end_ps = lane_end_ps[std::uint64_t{task.rank} << 32 | task.lane];
    ready_ps[i] = std::max(ready_ps[i], end_ps);
    end_ps = std::max(end_ps, task.start_ps + task.duration_ps);
    if (task.rendezvous == kNone) continue;
    Meeting& meeting = meetings[task.rendezvous];
    meeting.ready_ps = std::max(meeting.ready_ps, ready_ps[i]);
    meeting.start_ps = std::max(meeting.start_ps, task.start_ps);
    if (!task.hidden) meeting.duration_ps = std::min(meeting.duration_ps, task.duration_ps);
  }
  for (std::size_t i = 0; i < work->tasks.size(); ++i) {
    WorkTask& task = work->tasks[i];
    if (task.rendezvous == kNone) {
      task.gap_ps = std::max<std::int64_t>(0, task.start_ps - ready_ps[i]);
      continue;
    }
    const Meeting& meeting = meetings[task.rendezvous];
    task.gap_ps = std::max<std::int64_t>(0, meeting.start_ps - meeting.ready_ps);
    if (!task.hidden) task.duration_ps = meeting.duration_ps;
  }
}

}  // namespace twinstep
