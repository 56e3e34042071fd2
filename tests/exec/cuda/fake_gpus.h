// Streams, events and rendezvous without a GPU: what is launched runs at random moments, in any
// order that streams and events allow.
//
//   FakeGpus gpus({.queue_of_stream = {0, 0, 1}, .events = 20, .meeting_members = {2}}, ran);
//   gpus.Launch(/*stream=*/0, task);
//   gpus.Record(0, event);
//   gpus.Wait(2, event);  // Recorded before.
//   gpus.Meet(1, meeting, task);
//   bool idle = gpus.AwaitIdle({0, 1, 2}, std::chrono::seconds(20));
//
// Streams share hardware queues, which are in order: one that waits keeps others from starting.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace twinstep {

class FakeGpus {
 public:
  struct Sizes {
    std::vector<std::size_t> queue_of_stream;
    std::size_t events = 0;
    std::vector<std::size_t> meeting_members;
    std::uint64_t seed = 1;
  };
  // `ran` is called for each task, one at a time, as it runs.
  FakeGpus(const Sizes& sizes, std::function<void(std::uint32_t task)> ran);
  ~FakeGpus();
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

  // From any thread.
  void Launch(std::size_t stream, std::uint32_t task);
  void Record(std::size_t stream, std::uint32_t event);
  void Wait(std::size_t stream, std::uint32_t event);
  // All members' tasks run at once.
  void Meet(std::size_t stream, std::uint32_t meeting, std::uint32_t task);
  // As recorded last; what was never recorded has happened.
  bool Happened(std::uint32_t event);
  // False if it takes too long.
  bool AwaitIdle(const std::vector<std::size_t>& streams, std::chrono::seconds limit);

 private:
  struct Command {
    enum Kind : std::uint8_t { kTask, kRecord, kWait, kMeet };
    Kind kind = kTask;
    std::uint32_t id = 0, task = 0;
    std::uint64_t round = 0;  // Of an event: its recording, counted.
  };
  struct Event {
    std::uint64_t recorded = 0, happened = 0;
  };

  void Push(std::size_t stream, Command command);
  void Work();
  // False if it cannot go on yet.
  bool RunHead(std::size_t queue);
  bool RunMeeting(std::uint32_t meeting);

  std::function<void(std::uint32_t)> ran_;
  std::vector<std::size_t> queue_of_stream_, meeting_members_;
  std::mutex mutex_;
  std::condition_variable pushed_, idle_;
  std::vector<std::deque<Command>> queues_;
  std::vector<Event> events_;
  std::mt19937_64 random_;
  bool stop_ = false;
  std::jthread thread_;
};

}  // namespace twinstep
