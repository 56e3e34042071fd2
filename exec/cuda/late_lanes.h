// Lanes whose tasks are started late: not queued on a stream that waits for events, but launched
// by a thread of the CPU once all that they wait for is done. Their streams never wait on the GPU,
// which slows the copies of other streams. Needs no CUDA.
//
//   LateLanes late({.lane_commands = {3, 0}, .thread_of_lane = {0, 0}, .events = 2}, &device);
//   late.BeginIteration();
//   late.Wait(/*lane=*/0, from_compute, copy);  // An event that is recorded already.
//   late.Launch(0, copy);
//   late.Record(0, copied, copy);
//   late.AwaitRecorded(copied, 1s);  // Now another stream may wait for it.
//   late.AwaitDrained(1s);           // All are launched.
//
// Why this cannot deadlock, several processes and streams that share a hardware queue included.
// Call what is not late eager. Let all processes issue along the same order (IssueOrder), in which
// each task comes behind what it waits for and the members of a rendezvous are one, eager task.
//  - No thread of this class ever waits inside of a command, so a late task is launched as soon as
//    it is at the head of its lane and all that it waits for is done.
//  - Tasks enter their streams in an order that respects dependence ("launch order"): a late one
//    enters when all that it waits for is done; an eager one when the eager ones that are issued
//    before have entered, and the late ones that it waits for have too (AwaitRecorded). So whatever
//    a launched task waits for, be it through events, its stream's order or, falsely, a hardware
//    queue that streams share, was launched before it; only the other members of its rendezvous may
//    be launched elsewhere, later.
//  - What is not launched waits, too, for what comes earlier: an eager task for the late one that
//    its dispatcher waits for; the head of a late lane for tasks issued before it, of which the
//    eager ones are launched (the dispatcher is past them), while for the late ones the same holds.
//    Following these leads to a launched task, and the eager ones on the way come ever earlier in
//    the issue order.
//  - Suppose that nothing moves, though something is left. From what is left follow what it waits
//    for. Inside of one process the way goes back in launch order (from the unlaunched to the
//    launched), which ends, so it leads to a rendezvous that waits for a member in another process;
//    that member is not done or not launched, and the way goes on there. Eager tasks are launched
//    in issue order in every process, so the rendezvous that the way passes come ever earlier in
//    the one issue order: it ends, at something that waits for nothing. A contradiction.
// A launch that finds the driver's queues full waits for launched tasks only, which changes
// nothing.
//
// How far the dispatcher runs ahead: it stops where an eager lane needs what a late lane has not
// launched yet, so by what late tasks wait for. Computation of a layer needs the copy of its chunk,
// which needs the buffer of an earlier one: with B buffers B - 1 layers of launched work lie
// between the dispatcher and the GPU. All ranks of a process stop together, as one dispatcher
// serves them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "exec/runtime/program.h"
#include "sim/result.h"

namespace twinstep::cuda {

// What late lanes need of a device; called by their threads, those of a lane by one thread.
class LateDevice {
 public:
  virtual ~LateDevice() = default;
  // Once in each thread before all else.
  virtual Status StartThread(std::size_t thread) = 0;
  // Whether the event, as recorded last, has happened.
  virtual Result<bool> Happened(EventId event) = 0;
  // Neither waits for other tasks.
  virtual Status LaunchNow(TaskId task) = 0;
  virtual Status RecordNow(EventId event, TaskId task) = 0;
};

class LateLanes {
 public:
  struct Sizes {
    // By lane: the most commands of an iteration, and who serves it.
    std::vector<std::size_t> lane_commands, thread_of_lane;
    std::size_t events = 0;  // Of all lanes, late or not.
  };
  enum class State { kDone, kNotYet, kFailed };
  struct Failure {
    Error error;
    TaskId task = kNone;  // kNone: of a thread as it began.
  };
  // Between looks at events that have not happened yet.
  static constexpr auto kLookInterval = std::chrono::microseconds(20);

  LateLanes(const Sizes& sizes, LateDevice* device);
  ~LateLanes();  // As Stop.
  LateLanes(const LateLanes&) = delete;
  LateLanes& operator=(const LateLanes&) = delete;

  // The calls of an iteration come from one thread and allocate nothing. An event is recorded once
  // an iteration, before any lane waits for it: one of a late lane by Record, others on the device.
  void BeginIteration();  // All is drained.
  void Wait(std::size_t lane, EventId event, TaskId task);
  void Launch(std::size_t lane, TaskId task);
  void Record(std::size_t lane, EventId event, TaskId task);

  // Until the event is recorded in this iteration, if it is a late lane's (what Record was called
  // for), or time is over. After a failure or Stop nothing more is launched: kFailed.
  State AwaitRecorded(EventId event, std::chrono::nanoseconds limit);
  // Until all is launched and recorded, or time is over.
  State AwaitDrained(std::chrono::nanoseconds limit);

  // Of this iteration: grows as long as anything moves.
  std::size_t commands_done() const;
  std::optional<Failure> failure() const;  // The first one.

  // Ends the threads; what waits is dropped. A task that was launched has been recorded, too, as
  // far as Record had been called.
  void Stop();

 private:
  struct Command {
    enum Kind : std::uint8_t { kWait, kLaunch, kRecord };
    Kind kind = kLaunch;
    bool of_late_lane = false;  // kWait: what records the event.
    EventId event = kNone;
    TaskId task = kNone;
  };
  struct Queue {
    std::vector<Command> commands;
    std::size_t next = 0;
    std::size_t thread = 0;
  };
  struct Event {
    std::uint64_t queued_in = 0, recorded_in = 0;  // Iterations, counted from 1.
  };
  // What a thread found at the heads of its lanes.
  enum class Found {
    kWork,     // And did it.
    kWaiting,  // For events of the device, which say nothing when they happen.
    kNothing,  // Until something is pushed or recorded.
  };

  void Push(std::size_t lane, const Command& command);
  void Serve(std::size_t thread);
  // Both let go of the lock while they call the device.
  Found ServeLanes(std::size_t thread, std::unique_lock<std::mutex>* lock);
  Found ServeLane(Queue* queue, std::unique_lock<std::mutex>* lock);
  // False if what the command waits for has not happened yet.
  Result<bool> Run(const Command& command);
  void Fail(const Error& error, TaskId task);
  bool Ended() const { return stop_ || failure_.has_value(); }
  State StateOf(bool done) const;

  LateDevice* device_;
  mutable std::mutex mutex_;
  // Something was pushed or recorded; something was recorded, or all is drained.
  std::condition_variable work_, progress_;
  std::vector<Queue> queues_;  // By lane.
  std::vector<Event> events_;
  std::uint64_t iteration_ = 0;
  std::size_t pushed_ = 0, done_ = 0;  // Commands of this iteration.
  std::uint64_t changes_ = 0;          // Pushes and recordings, ever.
  std::optional<Failure> failure_;
  bool stop_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace twinstep::cuda
