#include "exec/cpu/lane_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

namespace twinstep {
namespace {

// Logs what it is asked to do: tasks as they are, meetings as 1000 + id.
class Recorder : public LaneWorker {
 public:
  void StartThread(std::size_t) override { ++threads; }
  bool Run(std::uint32_t task, std::size_t) override {
    if (on_run) on_run(task);
    Log(task);
    return task != failing;
  }
  bool Meet(std::uint32_t meeting, std::size_t) override {
    Log(1000 + meeting);
    return true;
  }
  std::size_t Position(std::uint32_t id) const {
    return static_cast<std::size_t>(std::find(log.begin(), log.end(), id) - log.begin());
  }

  std::vector<std::uint32_t> log;
  std::atomic<int> threads = 0;
  std::uint32_t failing = kNone;
  std::function<void(std::uint32_t)> on_run;

 private:
  void Log(std::uint32_t id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    log.push_back(id);
  }
  std::mutex mutex_;
};

LaneScheduler::Sizes Sizes(int threads, std::size_t lanes, std::size_t events = 0,
                           std::vector<std::uint32_t> meetings = {}) {
  LaneScheduler::Sizes sizes;
  sizes.threads = threads;
  sizes.lane_commands.assign(lanes, 100);
  sizes.events = events;
  sizes.meeting_members = std::move(meetings);
  return sizes;
}

TEST(LaneSchedulerTest, ALaneIsAFifo) {
  for (const int threads : {1, 3}) {
    Recorder recorder;
    LaneScheduler scheduler(Sizes(threads, 2), &recorder);
    EXPECT_EQ(recorder.threads, threads);
    for (std::uint32_t i = 0; i < 20; ++i) scheduler.Push(i % 2, {LaneCommand::kRun, i});
    for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {7}}) {
      ASSERT_EQ(scheduler.Drain(seed, 10), Outcome::kDone);
      ASSERT_EQ(recorder.log.size(), 20u);
      for (std::uint32_t i = 2; i < 20; ++i) {
        EXPECT_LT(recorder.Position(i - 2), recorder.Position(i));
      }
      recorder.log.clear();
      for (std::uint32_t i = 0; i < 20; ++i) scheduler.Push(i % 2, {LaneCommand::kRun, i});
    }
  }
}

TEST(LaneSchedulerTest, EventsOrderLanesInEveryRound) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Recorder recorder;
    LaneScheduler scheduler(Sizes(2, 3, 2), &recorder);
    for (int round = 0; round < 3; ++round) {
      recorder.log.clear();
      scheduler.Push(2, {LaneCommand::kRun, 1});
      scheduler.Push(2, {LaneCommand::kRecord, 0});
      scheduler.Push(1, {LaneCommand::kWait, 0, scheduler.Rounds(0)});
      scheduler.Push(1, {LaneCommand::kRun, 2});
      scheduler.Push(1, {LaneCommand::kRecord, 1});
      scheduler.Push(0, {LaneCommand::kWait, 1, scheduler.Rounds(1)});
      scheduler.Push(0, {LaneCommand::kRun, 3});
      ASSERT_EQ(scheduler.Drain(seed, 10), Outcome::kDone);
      EXPECT_EQ(recorder.log, (std::vector<std::uint32_t>{1, 2, 3}));
    }
  }
}

TEST(LaneSchedulerTest, MeetingsWaitForAllAndRunOnce) {
  for (const int threads : {1, 4}) {
    Recorder recorder;
    LaneScheduler scheduler(Sizes(threads, 4, 0, {4, 2}), &recorder);
    for (int round = 0; round < 3; ++round) {
      recorder.log.clear();
      for (std::uint32_t lane = 0; lane < 4; ++lane) {
        scheduler.Push(lane, {LaneCommand::kRun, lane});
        scheduler.Push(lane, {LaneCommand::kMeet, 0});
        scheduler.Push(lane, {LaneCommand::kRun, 10 + lane});
        if (lane < 2) scheduler.Push(lane, {LaneCommand::kMeet, 1});
      }
      ASSERT_EQ(scheduler.Drain(std::nullopt, 10), Outcome::kDone);
      ASSERT_EQ(recorder.log.size(), 10u);
      EXPECT_EQ(std::count(recorder.log.begin(), recorder.log.end(), 1000u), 1);
      for (std::uint32_t lane = 0; lane < 4; ++lane) {
        EXPECT_LT(recorder.Position(lane), recorder.Position(1000));
        EXPECT_LT(recorder.Position(1000), recorder.Position(10 + lane));
      }
      EXPECT_LT(std::max(recorder.Position(10), recorder.Position(11)), recorder.Position(1001));
    }
  }
}

TEST(LaneSchedulerTest, FailureStopsTheRest) {
  Recorder recorder;
  recorder.failing = 3;
  LaneScheduler scheduler(Sizes(1, 1), &recorder);
  for (std::uint32_t i = 0; i < 10; ++i) scheduler.Push(0, {LaneCommand::kRun, i});
  EXPECT_EQ(scheduler.Drain(std::nullopt, 10), Outcome::kFailed);
  EXPECT_EQ(recorder.log, (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST(LaneSchedulerTest, StallIsReportedAndCanBeLeft) {
  Recorder recorder;
  LaneScheduler scheduler(Sizes(2, 2, 0, {2}), &recorder);
  scheduler.Push(0, {LaneCommand::kRun, 1});
  scheduler.Push(0, {LaneCommand::kMeet, 0});  // Nobody else comes.
  EXPECT_EQ(scheduler.Drain(std::nullopt, 0.05), Outcome::kStalled);
  EXPECT_EQ(recorder.log, (std::vector<std::uint32_t>{1}));
}

// A lane that waits does not hold its thread: two threads serve ten lanes that wait for the last.
TEST(LaneSchedulerTest, WaitingLanesHoldNoThread) {
  Recorder recorder;
  LaneScheduler scheduler(Sizes(2, 11, 1), &recorder);
  scheduler.Push(10, {LaneCommand::kRun, 100});
  scheduler.Push(10, {LaneCommand::kRecord, 0});
  for (std::uint32_t lane = 0; lane < 10; ++lane) {
    scheduler.Push(lane, {LaneCommand::kWait, 0, 1});
    scheduler.Push(lane, {LaneCommand::kRun, lane});
  }
  ASSERT_EQ(scheduler.Drain(std::nullopt, 10), Outcome::kDone);
  EXPECT_EQ(recorder.log[0], 100u);
  EXPECT_EQ(recorder.log.size(), 11u);
}

TEST(LaneSchedulerTest, ThreadsWorkSideBySide) {
  Recorder recorder;
  std::promise<void> first_began, second_began;
  recorder.on_run = [&](std::uint32_t task) {
    (task == 0 ? first_began : second_began).set_value();
    (task == 0 ? second_began : first_began).get_future().wait();
  };
  LaneScheduler scheduler(Sizes(2, 2), &recorder);
  scheduler.Push(0, {LaneCommand::kRun, 0});
  scheduler.Push(1, {LaneCommand::kRun, 1});
  EXPECT_EQ(scheduler.Drain(std::nullopt, 10), Outcome::kDone);
}

}  // namespace
}  // namespace twinstep
