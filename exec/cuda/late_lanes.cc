#include "exec/cuda/late_lanes.h"

#include <algorithm>

namespace twinstep::cuda {

LateLanes::LateLanes(const Sizes& sizes, LateDevice* device)
    : device_(device), queues_(sizes.lane_commands.size()), events_(sizes.events) {
  std::size_t threads = 0;
  for (std::size_t lane = 0; lane < queues_.size(); ++lane) {
    queues_[lane].commands.reserve(sizes.lane_commands[lane]);
    queues_[lane].thread = sizes.thread_of_lane[lane];
    threads = std::max(threads, queues_[lane].thread + 1);
  }
  try {
    for (std::size_t thread = 0; thread < threads; ++thread) {
      threads_.emplace_back([this, thread] { Serve(thread); });
    }
  } catch (...) {
    Stop();  // Those that have begun would be waited for for ever.
    throw;
  }
}

LateLanes::~LateLanes() { Stop(); }

void LateLanes::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  progress_.notify_all();
  threads_.clear();
}

void LateLanes::BeginIteration() {
  const std::lock_guard lock(mutex_);
  ++iteration_;
  pushed_ = done_ = 0;
  for (Queue& queue : queues_) {
    queue.commands.clear();
    queue.next = 0;
  }
}

void LateLanes::Push(std::size_t lane, const Command& command) {
  {
    const std::lock_guard lock(mutex_);
    Command& pushed = queues_[lane].commands.emplace_back(command);
    if (command.kind == Command::kRecord) events_[command.event].queued_in = iteration_;
    if (command.kind == Command::kWait) {
      pushed.of_late_lane = events_[command.event].queued_in == iteration_;
    }
    ++pushed_;
    ++changes_;
  }
  work_.notify_all();
}

void LateLanes::Wait(std::size_t lane, EventId event, TaskId task) {
  Push(lane, {.kind = Command::kWait, .event = event, .task = task});
}

void LateLanes::Launch(std::size_t lane, TaskId task) {
  Push(lane, {.kind = Command::kLaunch, .task = task});
}

void LateLanes::Record(std::size_t lane, EventId event, TaskId task) {
  Push(lane, {.kind = Command::kRecord, .event = event, .task = task});
}

LateLanes::State LateLanes::StateOf(bool done) const {
  if (Ended()) return State::kFailed;
  return done ? State::kDone : State::kNotYet;
}

LateLanes::State LateLanes::AwaitRecorded(EventId event, std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  const Event& awaited = events_[event];
  const auto recorded = [&] {
    return awaited.queued_in != iteration_ || awaited.recorded_in == iteration_;
  };
  progress_.wait_for(lock, limit, [&] { return recorded() || Ended(); });
  return StateOf(recorded());
}

LateLanes::State LateLanes::AwaitDrained(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  progress_.wait_for(lock, limit, [&] { return done_ == pushed_ || Ended(); });
  return StateOf(done_ == pushed_);
}

std::size_t LateLanes::commands_done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

std::optional<LateLanes::Failure> LateLanes::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void LateLanes::Fail(const Error& error, TaskId task) {
  if (!failure_.has_value()) failure_ = Failure{error, task};
  work_.notify_all();
  progress_.notify_all();
}

void LateLanes::Serve(std::size_t thread) {
  const Status started = device_->StartThread(thread);
  std::unique_lock lock(mutex_);
  if (!started.ok()) Fail(started.error(), kNone);
  while (!Ended()) {
    const std::uint64_t seen = changes_;
    switch (ServeLanes(thread, &lock)) {
      case Found::kWork:
        break;
      case Found::kWaiting:
        // Pushes do not hurry it: their notifications are for threads that sleep.
        lock.unlock();
        std::this_thread::sleep_for(kLookInterval);
        lock.lock();
        break;
      case Found::kNothing:
        work_.wait(lock, [&] { return Ended() || changes_ != seen; });
        break;
    }
  }
  // A task may have been launched before its recording was pushed.
  ServeLanes(thread, &lock);
}

LateLanes::Found LateLanes::ServeLanes(std::size_t thread, std::unique_lock<std::mutex>* lock) {
  Found all = Found::kNothing;
  for (Queue& queue : queues_) {
    if (failure_.has_value()) break;
    if (queue.thread == thread) all = std::min(all, ServeLane(&queue, lock));
  }
  return all;
}

LateLanes::Found LateLanes::ServeLane(Queue* queue, std::unique_lock<std::mutex>* lock) {
  Found found = Found::kNothing;
  while (queue->next < queue->commands.size()) {
    // A copy: what is pushed meanwhile shares the vector.
    const Command command = queue->commands[queue->next];
    const bool waits = command.kind == Command::kWait;
    if (waits && command.of_late_lane && events_[command.event].recorded_in != iteration_) break;
    if (command.kind != Command::kRecord && Ended()) break;
    lock->unlock();
    const Result<bool> done = Run(command);
    lock->lock();
    if (!done.ok()) {
      Fail(done.error(), command.task);
      break;
    }
    if (!done.value()) {
      found = std::min(found, Found::kWaiting);
      break;
    }
    found = Found::kWork;
    ++queue->next;
    ++done_;
    if (command.kind == Command::kRecord) {
      events_[command.event].recorded_in = iteration_;
      ++changes_;
      work_.notify_all();
      progress_.notify_all();
    } else if (done_ == pushed_) {
      progress_.notify_all();
    }
  }
  return found;
}

Result<bool> LateLanes::Run(const Command& command) {
  if (command.kind == Command::kWait) return device_->Happened(command.event);
  const Status done = command.kind == Command::kLaunch
                          ? device_->LaunchNow(command.task)
                          : device_->RecordNow(command.event, command.task);
  if (!done.ok()) return done.error();
  return true;
}

}  // namespace twinstep::cuda
