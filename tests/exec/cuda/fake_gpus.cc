#include "tests/exec/cuda/fake_gpus.h"

#include <algorithm>
#include <utility>

namespace twinstep {

FakeGpus::FakeGpus(const Sizes& sizes, std::function<void(std::uint32_t task)> ran)
    : ran_(std::move(ran)),
      queue_of_stream_(sizes.queue_of_stream),
      meeting_members_(sizes.meeting_members),
      queues_(*std::max_element(queue_of_stream_.begin(), queue_of_stream_.end()) + 1),
      events_(sizes.events),
      random_(sizes.seed),
      thread_([this] { Work(); }) {}

FakeGpus::~FakeGpus() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  pushed_.notify_all();
}

void FakeGpus::Push(std::size_t stream, Command command) {
  const std::lock_guard lock(mutex_);
  if (command.kind == Command::kRecord) command.round = ++events_[command.id].recorded;
  if (command.kind == Command::kWait) command.round = events_[command.id].recorded;
  queues_[queue_of_stream_[stream]].push_back(command);
  pushed_.notify_all();
}

void FakeGpus::Launch(std::size_t stream, std::uint32_t task) {
  Push(stream, {.kind = Command::kTask, .task = task});
}

void FakeGpus::Record(std::size_t stream, std::uint32_t event) {
  Push(stream, {.kind = Command::kRecord, .id = event});
}

void FakeGpus::Wait(std::size_t stream, std::uint32_t event) {
  Push(stream, {.kind = Command::kWait, .id = event});
}

void FakeGpus::Meet(std::size_t stream, std::uint32_t meeting, std::uint32_t task) {
  Push(stream, {.kind = Command::kMeet, .id = meeting, .task = task});
}

bool FakeGpus::Happened(std::uint32_t event) {
  const std::lock_guard lock(mutex_);
  return events_[event].happened == events_[event].recorded;
}

bool FakeGpus::AwaitIdle(const std::vector<std::size_t>& streams, std::chrono::seconds limit) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, limit, [&] {
    return std::ranges::all_of(
        streams, [this](std::size_t stream) { return queues_[queue_of_stream_[stream]].empty(); });
  });
}

bool FakeGpus::RunMeeting(std::uint32_t meeting) {
  const auto waits_there = [meeting](const std::deque<Command>& queue) {
    return !queue.empty() && queue.front().kind == Command::kMeet && queue.front().id == meeting;
  };
  const auto there = std::ranges::count_if(queues_, waits_there);
  if (static_cast<std::size_t>(there) < meeting_members_[meeting]) return false;
  for (std::deque<Command>& queue : queues_) {
    if (!waits_there(queue)) continue;
    ran_(queue.front().task);
    queue.pop_front();
  }
  return true;
}

bool FakeGpus::RunHead(std::size_t index) {
  std::deque<Command>& queue = queues_[index];
  if (queue.empty()) return false;
  const Command command = queue.front();
  switch (command.kind) {
    case Command::kTask:
      ran_(command.task);
      break;
    case Command::kRecord:
      events_[command.id].happened = command.round;
      break;
    case Command::kWait:
      if (events_[command.id].happened < command.round) return false;
      break;
    case Command::kMeet:
      return RunMeeting(command.id);
  }
  queue.pop_front();
  return true;
}

void FakeGpus::Work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    bool moved = false;
    const std::size_t first = random_() % queues_.size();
    for (std::size_t i = 0; i < queues_.size() && !moved; ++i) {
      moved = RunHead((first + i) % queues_.size());
    }
    if (!moved) {
      idle_.notify_all();
      pushed_.wait(lock);
      continue;
    }
    // Sometimes slow, so that the dispatchers run ahead.
    const bool pause = random_() % 8 == 0;
    lock.unlock();
    if (pause) std::this_thread::sleep_for(std::chrono::microseconds(1));
    lock.lock();
  }
}

}  // namespace twinstep
