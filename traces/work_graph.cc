#include "traces/work_graph.h"

#include <algorithm>
#include <unordered_map>

namespace twinstep {
namespace {

// Overlaps up to this share of the shorter task, or this time, leave tasks in one queue.
constexpr std::int64_t kLeadShare = 4;
constexpr std::int64_t kLead_ps = 1'000'000;

std::int64_t EndOf(const WorkTask& task) { return task.start_ps + task.duration_ps; }

// How much before the end of `before` the task begins; below 0 where it is no follower of it.
std::int64_t Lead(const WorkTask& before, const WorkTask& task) {
  const std::int64_t overlap = EndOf(before) - task.start_ps;
  if (overlap <= 0) return 0;
  const std::int64_t shorter = std::min(before.duration_ps, task.duration_ps);
  const bool follows = EndOf(task) >= EndOf(before) && task.start_ps > before.start_ps &&
                       overlap <= std::max(shorter / kLeadShare, kLead_ps);
  return follows ? overlap : -1;
}

// The queues of a lane of a rank, by their numbers among all of the rank's.
struct LaneQueues {
  std::vector<std::uint32_t> numbers;
  std::vector<std::uint32_t> last;  // Tasks, by queue.
};

}  // namespace

void QueueByLane(WorkGraph* work) {
  for (WorkTask& task : work->tasks) task.queue = task.lane;
}

void QueueByTime(WorkGraph* work) {
  std::unordered_map<std::uint64_t, LaneQueues> lanes;
  std::vector<std::uint32_t> next_queue(work->ranks.size(),
                                        static_cast<std::uint32_t>(work->lanes.size()));
  for (std::uint32_t i = 0; i < work->tasks.size(); ++i) {
    WorkTask& task = work->tasks[i];
    LaneQueues& queues = lanes[std::uint64_t{task.rank} << 32 | task.lane];
    // The queue that became free last.
    std::size_t chosen = queues.last.size();
    for (std::size_t k = 0; k < queues.last.size(); ++k) {
      const WorkTask& before = work->tasks[queues.last[k]];
      if (Lead(before, task) < 0) continue;
      if (chosen == queues.last.size() || EndOf(before) > EndOf(work->tasks[queues.last[chosen]])) {
        chosen = k;
      }
    }
    for (std::size_t k = 0; k < queues.last.size(); ++k) {
      const std::uint32_t other = queues.last[k];
      if (k == chosen || EndOf(work->tasks[other]) > task.start_ps) continue;
      // The one before it waits for the other already. (Where one has ended, a queue is chosen.)
      const std::uint32_t before = queues.last[chosen];
      if (other < before && EndOf(work->tasks[other]) <= work->tasks[before].start_ps) continue;
      work->edges.emplace_back(other, i);
    }
    if (chosen == queues.last.size()) {
      // The first one has the lane's number.
      queues.numbers.push_back(queues.numbers.empty() ? task.lane : next_queue[task.rank]++);
      queues.last.push_back(i);
    } else {
      task.lead_ps = Lead(work->tasks[queues.last[chosen]], task);
      queues.last[chosen] = i;
    }
    task.queue = queues.numbers[chosen];
  }
}

void ExplainStarts(WorkGraph* work) {
  // When all that a task waits for had ended, as traced.
  std::vector<std::int64_t> ready_ps(work->tasks.size(), 0);
  std::unordered_map<std::uint64_t, std::int64_t> queue_end_ps;
  for (const auto& [from, to] : work->edges) {
    ready_ps[to] = std::max(ready_ps[to], EndOf(work->tasks[from]));
  }
  struct Meeting {
    std::int64_t ready_ps = 0, start_ps = 0, duration_ps = INT64_MAX;
  };
  std::vector<Meeting> meetings(work->rendezvous.size());
  for (std::size_t i = 0; i < work->tasks.size(); ++i) {
    const WorkTask& task = work->tasks[i];
    std::int64_t& end_ps = queue_end_ps[std::uint64_t{task.rank} << 32 | task.queue];
    ready_ps[i] = std::max(ready_ps[i], end_ps - task.lead_ps);
    end_ps = std::max(end_ps, EndOf(task));
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
