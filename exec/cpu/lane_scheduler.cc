#include "exec/cpu/lane_scheduler.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace twinstep {
namespace {

// Lanes that only go on when no other can: what orders the others must then come from edges.
constexpr std::uint64_t kMostStragglers = 3;

}  // namespace

LaneScheduler::LaneScheduler(Sizes sizes, LaneWorker* worker)
    : worker_(worker),
      lanes_(sizes.lane_commands.size()),
      events_(sizes.events),
      meetings_(sizes.meeting_members.size()),
      ready_(sizes.lane_commands.size()) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].commands.reserve(sizes.lane_commands[i]);
  }
  for (std::size_t i = 0; i < meetings_.size(); ++i) {
    meetings_[i].members = sizes.meeting_members[i];
  }
  try {
    for (int i = 0; i < sizes.threads; ++i) {
      threads_.emplace_back([this, i] { Serve(static_cast<std::size_t>(i)); });
    }
  } catch (const std::system_error&) {
    EndThreads();  // Those that have begun would wait for ever.
    throw;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  finished_.wait(lock, [this] { return started_ == threads_.size(); });
}

LaneScheduler::~LaneScheduler() { EndThreads(); }

void LaneScheduler::EndThreads() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void LaneScheduler::Push(std::size_t lane, LaneCommand command) {
  if (command.kind == LaneCommand::kRecord) ++events_[command.id].pushed;
  lanes_[lane].commands.push_back(command);
  ++pushed_;
}

void LaneScheduler::MakeReady(std::size_t lane) {
  ready_[(ready_begin_ + ready_count_++) % ready_.size()] = lane;
  has_ready_.store(true, std::memory_order_relaxed);
  // Threads that look for work come by themselves.
  if (idle_ > 0 && ready_count_ > looking_) work_.notify_one();
}

void LaneScheduler::Wake(std::size_t* first_waiting) {
  std::size_t lane = std::exchange(*first_waiting, kNoLane);
  while (lane != kNoLane) {
    const std::size_t next = std::exchange(lanes_[lane].next_waiting, kNoLane);
    MakeReady(lane);
    lane = next;
  }
}

std::size_t LaneScheduler::TakeReady() {
  if (shuffles_) std::swap(ready_[ready_begin_], ready_[DrawReady()]);
  const std::size_t lane = ready_[ready_begin_];
  ready_begin_ = (ready_begin_ + 1) % ready_.size();
  --ready_count_;
  if (ready_count_ == 0) has_ready_.store(false, std::memory_order_relaxed);
  return lane;
}

void LaneScheduler::LookForWork(std::unique_lock<std::mutex>* lock) {
  using Clock = std::chrono::steady_clock;
  if (!draining_ || Stopped() || ready_count_ > 0) return;
  const auto end = Clock::now() + std::chrono::duration<double>(kLookSeconds);
  ++looking_;
  // Another thread may be faster to take the lane.
  while (draining_ && !Stopped() && ready_count_ == 0 && Clock::now() < end) {
    lock->unlock();
    while (!has_ready_.load(std::memory_order_relaxed) && Clock::now() < end) {
      std::this_thread::yield();
    }
    lock->lock();
  }
  --looking_;
}

std::size_t LaneScheduler::DrawReady() {
  const auto at = [this](std::size_t i) { return (ready_begin_ + i) % ready_.size(); };
  std::size_t prompt = 0;
  for (std::size_t i = 0; i < ready_count_; ++i) {
    if (!lanes_[ready_[at(i)]].straggles) std::swap(ready_[at(i)], ready_[at(prompt++)]);
  }
  return at(random_() % (prompt > 0 ? prompt : ready_count_));
}

void LaneScheduler::DrawStragglers() {
  for (LaneQueue& queue : lanes_) queue.straggles = false;
  for (std::size_t i = random_() % (kMostStragglers + 1); i > 0; --i) {
    // Of the lanes in use.
    lanes_[ready_[random_() % ready_count_]].straggles = true;
  }
}

void LaneScheduler::ServeLane(std::size_t lane, std::size_t thread,
                              std::unique_lock<std::mutex>* lock) {
  LaneQueue& queue = lanes_[lane];
  const auto wait_in = [&](std::size_t* first_waiting) {
    queue.next_waiting = std::exchange(*first_waiting, lane);
  };
  bool worked = false;
  while (queue.next < queue.commands.size()) {
    const LaneCommand command = queue.commands[queue.next];
    // Behind the events of the task that is done, so that others may overtake this lane.
    if (worked && shuffles_ && command.kind != LaneCommand::kRecord) {
      MakeReady(lane);
      return;
    }
    switch (command.kind) {
      case LaneCommand::kRecord: {
        Event& event = events_[command.id];
        ++event.done;
        Wake(&event.first_waiting);
        break;
      }
      case LaneCommand::kWait: {
        Event& event = events_[command.id];
        if (static_cast<std::int32_t>(event.done - command.round) < 0) {
          wait_in(&event.first_waiting);
          return;
        }
        break;
      }
      case LaneCommand::kRun: {
        lock->unlock();
        const bool done = worker_->Run(command.id, thread);
        lock->lock();
        failed_ = failed_ || !done;
        worked = true;
        break;
      }
      case LaneCommand::kMeet: {
        Meeting& meeting = meetings_[command.id];
        if (++meeting.arrived < meeting.members) {
          wait_in(&meeting.first_waiting);
          return;
        }
        lock->unlock();
        const bool done = worker_->Meet(command.id, thread);
        lock->lock();
        failed_ = failed_ || !done;
        meeting.arrived = 0;
        // The others are past the meeting, too.
        for (std::size_t other = meeting.first_waiting; other != kNoLane;
             other = lanes_[other].next_waiting) {
          ++lanes_[other].next;
          ++done_;
        }
        Wake(&meeting.first_waiting);
        worked = true;
        break;
      }
    }
    ++queue.next;
    ++done_;
    if (Stopped()) return;
  }
}

void LaneScheduler::Serve(std::size_t thread) {
  worker_->StartThread(thread);
  std::unique_lock<std::mutex> lock(mutex_);
  ++started_;
  finished_.notify_one();
  while (!stop_) {
    LookForWork(&lock);
    if (!draining_ || failed_ || ready_count_ == 0) {
      ++idle_;
      work_.wait(lock, [this] { return stop_ || (draining_ && !failed_ && ready_count_ > 0); });
      --idle_;
      continue;
    }
    ServeLane(TakeReady(), thread, &lock);
    if (done_ == pushed_ || failed_) finished_.notify_one();
  }
}

Outcome LaneScheduler::Drain(std::optional<std::uint64_t> shuffle_seed, double stall_limit_s) {
  std::unique_lock<std::mutex> lock(mutex_);
  shuffles_ = shuffle_seed.has_value();
  ready_begin_ = ready_count_ = 0;
  done_ = 0;
  draining_ = true;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!lanes_[lane].commands.empty()) MakeReady(lane);
  }
  if (shuffles_) {
    random_.seed(*shuffle_seed);
    DrawStragglers();
  }
  const std::chrono::duration<double> limit(stall_limit_s);
  std::size_t seen = done_;
  while (done_ < pushed_ && !failed_) {
    const bool over =
        finished_.wait_for(lock, limit, [this] { return done_ == pushed_ || failed_; });
    if (!over && done_ == seen) {
      stop_ = true;
      return Outcome::kStalled;
    }
    seen = done_;
  }
  draining_ = false;
  if (failed_) return Outcome::kFailed;
  for (LaneQueue& queue : lanes_) {
    queue.commands.clear();
    queue.next = 0;
  }
  pushed_ = 0;
  return Outcome::kDone;
}

}  // namespace twinstep
