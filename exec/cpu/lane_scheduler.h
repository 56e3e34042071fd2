// Threads that serve in-order queues: the lanes of all ranks of a process.
//
//   LaneScheduler scheduler({.threads = 4, .lanes = 11 * ranks, ...}, &worker);
//   scheduler.Push(lane, {LaneCommand::kRun, task});
//   scheduler.Drain(std::nullopt, /*stall_limit_s=*/30);   // Runs what was pushed.
//
// A lane is served by one thread at a time. Where it must wait (for an event or for the other
// lanes of a meeting) the thread goes on with another lane, so any number of threads makes
// progress.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "exec/runtime/backend.h"

namespace twinstep {

struct LaneCommand {
  enum Kind : std::uint8_t {
    kRun,     // id: task.
    kMeet,    // id: meeting. The lane that comes last does the work of all.
    kRecord,  // id: event.
    kWait,    // id: event, as recorded `round` times.
  };
  Kind kind = kRun;
  std::uint32_t id = 0;
  std::uint32_t round = 0;
};

// The work itself; called by the scheduler's threads (`thread` counts them from 0), at most once at
// a time for each lane. False stops the iteration.
class LaneWorker {
 public:
  virtual ~LaneWorker() = default;
  // Once in each thread before its first work.
  virtual void StartThread(std::size_t thread) = 0;
  virtual bool Run(std::uint32_t task, std::size_t thread) = 0;
  virtual bool Meet(std::uint32_t meeting, std::size_t thread) = 0;
};

class LaneScheduler {
 public:
  struct Sizes {
    int threads = 1;
    std::vector<std::size_t> lane_commands;      // By lane: the most that are pushed at a time.
    std::vector<std::uint32_t> meeting_members;  // By meeting.
    std::size_t events = 0;
  };

  // How long a thread without work looks for it before it sleeps: to wake up takes about as long,
  // and most waits for the other members of a collective are shorter.
  static constexpr double kLookSeconds = 50e-6;

  // Returns when all threads have started.
  LaneScheduler(Sizes sizes, LaneWorker* worker);
  // Waits for the tasks that run; queued ones are dropped.
  ~LaneScheduler();
  LaneScheduler(const LaneScheduler&) = delete;
  LaneScheduler& operator=(const LaneScheduler&) = delete;

  // From one thread, not during Drain. Allocates nothing.
  void Push(std::size_t lane, LaneCommand command);
  // How often the event's recording has been pushed.
  std::uint32_t Rounds(std::uint32_t event) const { return events_[event].pushed; }

  // Runs all that was pushed. With a seed the threads draw the next lane at random for each task;
  // each seed also holds some lanes back as long as others can go on.
  // After another outcome than kDone nothing runs any more.
  Outcome Drain(std::optional<std::uint64_t> shuffle_seed, double stall_limit_s);

 private:
  void EndThreads();
  static constexpr std::size_t kNoLane = static_cast<std::size_t>(-1);

  struct LaneQueue {
    std::vector<LaneCommand> commands;
    std::size_t next = 0;
    std::size_t next_waiting = kNoLane;  // In an event's or a meeting's list.
    bool straggles = false;              // Drawn for each shuffled run.
  };
  struct Event {
    std::uint32_t pushed = 0, done = 0;
    std::size_t first_waiting = kNoLane;
  };
  struct Meeting {
    std::uint32_t members = 0, arrived = 0;
    std::size_t first_waiting = kNoLane;
  };

  void Serve(std::size_t thread);
  // Advances the lane until it blocks, is empty, or (shuffled) has done a task. Holds the lock
  // except during the work itself.
  void ServeLane(std::size_t lane, std::size_t thread, std::unique_lock<std::mutex>* lock);
  void MakeReady(std::size_t lane);
  void Wake(std::size_t* first_waiting);
  std::size_t TakeReady();
  // Until a lane is ready or some time has passed; lets go of the lock meanwhile.
  void LookForWork(std::unique_lock<std::mutex>* lock);
  std::size_t DrawReady();
  void DrawStragglers();
  bool Stopped() const { return stop_ || failed_; }

  LaneWorker* worker_;
  std::vector<LaneQueue> lanes_;
  std::vector<Event> events_;
  std::vector<Meeting> meetings_;

  std::mutex mutex_;
  std::condition_variable work_, finished_;
  std::vector<std::size_t> ready_;  // Circular; a lane stands in it once at most.
  std::size_t ready_begin_ = 0, ready_count_ = 0;
  std::atomic<bool> has_ready_ = false;  // ready_count_ > 0, for those without the lock.
  std::size_t started_ = 0, idle_ = 0, looking_ = 0;  // Threads.
  std::size_t pushed_ = 0, done_ = 0;                 // Commands.
  bool draining_ = false, failed_ = false, stop_ = false;
  bool shuffles_ = false;
  std::mt19937_64 random_;
  std::vector<std::thread> threads_;
};

}  // namespace twinstep
