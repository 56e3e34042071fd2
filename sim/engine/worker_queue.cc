#include "sim/engine/worker_queue.h"

#include <algorithm>
#include <utility>

namespace twinstep {

void WorkerQueue::BeginMoment() { sleeping_ += std::exchange(awake_, 0); }

void WorkerQueue::EndJob(TaskId task, TaskId next) {
  ended_.push_back({task, next});
  ++awake_;
}

std::span<const WorkerQueue::Grant> WorkerQueue::Assign() {
  grants_.clear();
  // The order in which things were said to happen at this moment decides nothing.
  std::sort(ready_.begin(), ready_.end());
  std::sort(ended_.begin(), ended_.end(),
            [](const Ended& a, const Ended& b) { return a.task < b.task; });
  for (const Ended& ended : ended_) {
    const auto at = std::lower_bound(ready_.begin(), ready_.end(), ended.next);
    if (ended.next == kNone || at == ready_.end() || *at != ended.next) continue;
    ready_.erase(at);
    --awake_;
    grants_.push_back({ended.next, ended.task, pool_.dispatch_ps});
  }
  ended_.clear();
  waiting_.insert(waiting_.end(), ready_.begin(), ready_.end());
  ready_.clear();
  while (!waiting_.empty() && awake_ + sleeping_ > 0) {
    const bool is_awake = awake_ > 0;
    --(is_awake ? awake_ : sleeping_);
    grants_.push_back({waiting_.front(), kNone, is_awake ? pool_.dispatch_ps : pool_.wake_ps});
    waiting_.pop_front();
  }
  return grants_;
}

}  // namespace twinstep
