#include "exec/cuda/late_lanes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/exec/runtime/allocation_count.h"

namespace twinstep::cuda {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = LateLanes::State;

// Events happen when the test says so; logs launches as the task, recordings as 100 + event.
class ManualDevice : public LateDevice {
 public:
  explicit ManualDevice(std::size_t events = 8) : happened_(events, false) { log_.reserve(1000); }

  Status StartThread(std::size_t) override { return ErrorIf(fails_to_start); }
  Result<bool> Happened(EventId event) override {
    const std::lock_guard lock(mutex_);
    if (event == failing_event) return Failed();
    return static_cast<bool>(happened_[event]);
  }
  Status LaunchNow(TaskId task) override { return Log(task, task == failing_task); }
  Status RecordNow(EventId event, TaskId) override {
    return Log(100 + event, event == failing_record);
  }

  void Happen(EventId event) {
    const std::lock_guard lock(mutex_);
    happened_[event] = true;
  }
  std::vector<std::uint32_t> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    log_.clear();
    happened_.assign(happened_.size(), false);
  }
  bool WaitForLog(std::size_t entries) {
    std::unique_lock lock(mutex_);
    return logged_.wait_for(lock, seconds(20), [&] { return log_.size() >= entries; });
  }

  // Set before the lanes are made.
  bool fails_to_start = false;
  TaskId failing_task = kNone;
  EventId failing_event = kNone, failing_record = kNone;

 private:
  static Error Failed() { return {.code = ExitCode::kInternal, .message = "broken"}; }
  static Status ErrorIf(bool failed) { return failed ? Status(Failed()) : Status(Unit{}); }
  Status Log(std::uint32_t entry, bool fails) {
    const std::lock_guard lock(mutex_);
    if (fails) return Failed();
    log_.push_back(entry);
    logged_.notify_all();
    return Unit{};
  }

  std::mutex mutex_;
  std::condition_variable logged_;
  std::vector<bool> happened_;
  std::vector<std::uint32_t> log_;
};

LateLanes::Sizes Sizes(std::vector<std::size_t> thread_of_lane) {
  return {.lane_commands = std::vector<std::size_t>(thread_of_lane.size(), 100),
          .thread_of_lane = thread_of_lane,
          .events = 8};
}

using Entries = std::vector<std::uint32_t>;

TEST(LateLanesTest, ALaneIsInOrderAndStartsWhenItsEventsHaveHappened) {
  ManualDevice device;
  LateLanes late(Sizes({0}), &device);
  late.BeginIteration();
  EXPECT_EQ(late.AwaitDrained(seconds(20)), State::kDone);
  late.Launch(0, 10);
  late.Wait(0, 1, 11);
  late.Wait(0, 2, 11);
  late.Launch(0, 11);
  late.Record(0, 3, 11);
  late.Launch(0, 12);
  EXPECT_TRUE(device.WaitForLog(1));
  EXPECT_EQ(late.AwaitDrained(milliseconds(5)), State::kNotYet);
  device.Happen(2);
  EXPECT_EQ(late.AwaitDrained(milliseconds(5)), State::kNotYet);
  EXPECT_EQ(device.log(), (Entries{10}));
  device.Happen(1);
  EXPECT_EQ(late.AwaitDrained(seconds(20)), State::kDone);
  EXPECT_EQ(device.log(), (Entries{10, 11, 103, 12}));
  EXPECT_EQ(late.commands_done(), 6u);
  EXPECT_FALSE(late.failure().has_value());
}

TEST(LateLanesTest, OtherLanesPassOneThatWaits) {
  for (const std::size_t second_thread : {0, 1}) {
    ManualDevice device;
    LateLanes late(Sizes({0, second_thread}), &device);
    late.BeginIteration();
    late.Wait(0, 1, 10);
    late.Launch(0, 10);
    late.Launch(1, 11);
    EXPECT_TRUE(device.WaitForLog(1));
    EXPECT_EQ(device.log(), (Entries{11}));
    device.Happen(1);
    EXPECT_EQ(late.AwaitDrained(seconds(20)), State::kDone);
    EXPECT_EQ(device.log(), (Entries{11, 10}));
  }
}

// In the first iteration the event has never been recorded, in the second it is the first's.
TEST(LateLanesTest, AnEventOfALateLaneIsAwaitedInEachIteration) {
  for (const std::size_t second_thread : {0, 1}) {
    ManualDevice device;
    LateLanes late(Sizes({0, second_thread}), &device);
    for (int iteration = 0; iteration < 3; ++iteration) {
      SCOPED_TRACE(iteration);
      device.Clear();
      device.Happen(2);  // As a CUDA event that nobody has recorded in this iteration.
      late.BeginIteration();
      late.Wait(0, 1, 10);
      late.Launch(0, 10);
      late.Record(0, 2, 10);
      late.Wait(1, 2, 11);
      late.Launch(1, 11);
      EXPECT_EQ(late.AwaitRecorded(2, milliseconds(0)), State::kNotYet);
      EXPECT_EQ(late.AwaitRecorded(2, milliseconds(2)), State::kNotYet);
      EXPECT_EQ(device.log(), Entries{});
      device.Happen(1);
      EXPECT_EQ(late.AwaitRecorded(2, seconds(20)), State::kDone);
      EXPECT_EQ(late.AwaitDrained(seconds(20)), State::kDone);
      EXPECT_EQ(device.log(), (Entries{10, 102, 11}));
    }
  }
}

TEST(LateLanesTest, OtherEventsAreNotAwaited) {
  ManualDevice device;
  LateLanes late(Sizes({0}), &device);
  late.BeginIteration();
  late.Record(0, 2, 10);
  EXPECT_EQ(late.AwaitRecorded(1, seconds(20)), State::kDone);
  EXPECT_EQ(late.AwaitRecorded(2, seconds(20)), State::kDone);
  // Not a late lane's any more.
  late.BeginIteration();
  EXPECT_EQ(late.AwaitRecorded(2, seconds(20)), State::kDone);
}

TEST(LateLanesTest, TheFirstErrorEndsAllLanesAndNamesItsTask) {
  struct Case {
    const char* label;
    void (*edit)(ManualDevice&);
    TaskId task;
    Entries log;
  };
  for (const Case& test_case :
       {Case{"launch", [](ManualDevice& device) { device.failing_task = 11; }, 11, {10}},
        Case{"look", [](ManualDevice& device) { device.failing_event = 1; }, 11, {10}},
        Case{"recording", [](ManualDevice& device) { device.failing_record = 2; }, 11, {10, 11}},
        Case{"start", [](ManualDevice& device) { device.fails_to_start = true; }, kNone, {}}}) {
    SCOPED_TRACE(test_case.label);
    ManualDevice device;
    test_case.edit(device);
    device.Happen(1);
    LateLanes late(Sizes({0}), &device);
    late.BeginIteration();
    late.Launch(0, 10);
    late.Wait(0, 1, 11);
    late.Launch(0, 11);
    late.Record(0, 2, 11);
    late.Launch(0, 12);
    EXPECT_EQ(late.AwaitRecorded(2, seconds(20)), State::kFailed);
    EXPECT_EQ(late.AwaitDrained(seconds(20)), State::kFailed);
    ASSERT_TRUE(late.failure().has_value());
    EXPECT_EQ(late.failure()->error.message, "broken");
    EXPECT_EQ(late.failure()->task, test_case.task);
    EXPECT_EQ(device.log(), test_case.log);
    late.Launch(0, 13);
    EXPECT_EQ(late.AwaitDrained(milliseconds(2)), State::kFailed);
    EXPECT_EQ(device.log(), test_case.log);
  }
}

TEST(LateLanesTest, AnErrorWakesTheThreadsThatSleep) {
  ManualDevice device;
  device.failing_task = 11;
  LateLanes late(Sizes({0, 1}), &device);
  late.BeginIteration();
  late.Wait(0, 1, 10);
  late.Record(0, 2, 10);
  std::jthread fails([&] {
    std::this_thread::sleep_for(milliseconds(5));
    late.Launch(1, 11);
  });
  EXPECT_EQ(late.AwaitRecorded(2, seconds(20)), State::kFailed);
}

TEST(LateLanesTest, AfterStopWhatWasLaunchedIsRecordedAndTheRestDropped) {
  ManualDevice device;
  LateLanes late(Sizes({0, 1}), &device);
  late.BeginIteration();
  late.Launch(0, 10);
  late.Record(0, 2, 10);
  late.Wait(0, 1, 11);
  late.Launch(0, 11);
  late.Record(0, 3, 11);
  EXPECT_TRUE(device.WaitForLog(1));
  late.Stop();
  EXPECT_EQ(device.log(), (Entries{10, 102}));
  device.Happen(1);
  EXPECT_EQ(late.AwaitRecorded(3, seconds(20)), State::kFailed);
  EXPECT_EQ(late.AwaitDrained(seconds(20)), State::kFailed);
  EXPECT_FALSE(late.failure().has_value());
  late.Stop();
}

TEST(LateLanesTest, EndsWhileItWaits) {
  for (int round = 0; round < 50; ++round) {
    ManualDevice device;
    LateLanes late(Sizes({0, 1, 1}), &device);
    late.BeginIteration();
    late.Wait(0, 1, 10);
    late.Launch(0, 10);
    late.Launch(2, 11);
  }
}

TEST(LateLanesTest, AnIterationAllocatesNothing) {
  ManualDevice device;
  LateLanes late(Sizes({0, 1}), &device);
  std::int64_t before = 0;
  for (int iteration = 0; iteration < 3; ++iteration) {
    if (iteration == 1) before = AllocationCount();
    late.BeginIteration();
    for (TaskId task = 0; task < 30; ++task) {
      late.Launch(task % 2, task);
      if (task == 20) late.Record(0, 2, task);
    }
    EXPECT_EQ(late.AwaitRecorded(2, seconds(20)), State::kDone);
    EXPECT_EQ(late.AwaitDrained(seconds(20)), State::kDone);
  }
  EXPECT_EQ(AllocationCount(), before);
}

// One launch goes on until the gate is open, one fails.
class GatedDevice : public LateDevice {
 public:
  Status StartThread(std::size_t) override { return Unit{}; }
  Result<bool> Happened(EventId) override { return true; }
  Status LaunchNow(TaskId task) override {
    std::unique_lock lock(mutex);
    log.push_back(task);
    changed.notify_all();
    if (task == fail) return Error{.code = ExitCode::kInternal, .message = "broken"};
    if (task == gate) changed.wait(lock, [&] { return open; });
    return Unit{};
  }
  Status RecordNow(EventId event, TaskId) override {
    const std::lock_guard lock(mutex);
    log.push_back(100 + event);
    return Unit{};
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  TaskId gate = kNone, fail = kNone;
  Entries log;
};

TEST(LateLanesTest, NothingIsLaunchedAfterStop) {
  GatedDevice device;
  device.gate = 10;
  LateLanes late(Sizes({0}), &device);
  late.BeginIteration();
  for (TaskId t = 10; t < 14; ++t) {
    late.Launch(0, t);
    late.Record(0, t - 10, t);
  }
  {
    std::unique_lock lock(device.mutex);
    device.changed.wait(lock, [&] { return device.log.size() == 1; });
  }
  std::jthread opens([&] {
    while (late.AwaitDrained(milliseconds(1)) != State::kFailed) continue;  // Stop was called.
    const std::lock_guard lock(device.mutex);
    device.open = true;
    device.changed.notify_all();
  });
  late.Stop();
  EXPECT_EQ(device.log, (Entries{10, 100}));
}

TEST(LateLanesTest, NothingIsLaunchedAfterAFailure) {
  GatedDevice device;
  device.gate = 20;
  device.fail = 10;
  LateLanes late(Sizes({0, 1}), &device);
  late.BeginIteration();
  late.Launch(1, 20);
  late.Launch(1, 21);
  late.Launch(1, 22);
  {
    std::unique_lock lock(device.mutex);
    device.changed.wait(lock, [&] { return device.log.size() == 1; });
  }
  late.Launch(0, 10);
  EXPECT_EQ(late.AwaitDrained(seconds(20)), State::kFailed);
  {
    const std::lock_guard lock(device.mutex);
    device.open = true;
    device.changed.notify_all();
  }
  late.Stop();
  EXPECT_EQ(device.log, (Entries{20, 10}));
}

// Events and pushes going on.
TEST(LateLanesTest, StopsAtAnyMoment) {
  for (int round = 0; round < 300; ++round) {
    ManualDevice device;
    device.Happen(2);
    device.Happen(4);
    LateLanes late(Sizes({0, 1, 1}), &device);
    std::jthread stops;
    for (int iteration = 0; iteration < 3; ++iteration) {
      late.BeginIteration();
      for (TaskId task = 0; task < 30; ++task) {
        if (iteration == 2 && static_cast<int>(task) == round % 30) {
          stops = std::jthread([&late, round] {
            std::this_thread::sleep_for(std::chrono::microseconds(round));
            late.Stop();
          });
        }
        late.Wait(task % 3, 2, task);
        late.Launch(task % 3, task);
        if (task == 10) late.Record(task % 3, 1, task);
        if (task > 10) late.Wait((task + 1) % 3, 4, task);
      }
      EXPECT_NE(late.AwaitRecorded(1, seconds(20)), State::kNotYet);
      EXPECT_NE(late.AwaitDrained(seconds(20)), State::kNotYet);
    }
  }
}

}  // namespace
}  // namespace twinstep::cuda
