#include "exec/profile/dispatch_cost.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "exec/cpu/lane_scheduler.h"
#include "exec/profile/statistics.h"

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 100;
constexpr double kStallLimit_s = 60;

// Lane 0: task 0, an event, task 1. Lane 1: waits for the event, task 2. The thread that ran task 0
// goes on with task 1, so the other one must wake up for task 2.
class Wakes : public LaneWorker {
 public:
  // `work_s`: of tasks 0 and 1.
  explicit Wakes(double work_s) : work_(work_s) {}

  void StartThread(std::size_t /*thread*/) override {}
  bool Meet(std::uint32_t /*meeting*/, std::size_t /*thread*/) override { return true; }
  bool Run(std::uint32_t task, std::size_t /*thread*/) override {
    const Clock::time_point begin = Clock::now();
    if (task == 2) {
      waited_s_.push_back(std::chrono::duration<double>(begin - ready_).count());
      return true;
    }
    while (Clock::now() - begin < work_) {
    }
    if (task == 0) ready_ = Clock::now();
    return true;
  }
  const std::vector<double>& waited_s() const { return waited_s_; }

 private:
  const std::chrono::duration<double> work_;
  Clock::time_point ready_;  // The scheduler's lock orders its writing and reading.
  std::vector<double> waited_s_;
};

double MedianWait(double work_s) {
  Wakes wakes(work_s);
  LaneScheduler scheduler(
      {.threads = 2, .lane_commands = {3, 2}, .meeting_members = {}, .events = 1}, &wakes);
  for (int i = 0; i < kRepeats; ++i) {
    scheduler.Push(0, {LaneCommand::kRun, 0});
    scheduler.Push(0, {LaneCommand::kRecord, 0});
    scheduler.Push(0, {LaneCommand::kRun, 1});
    scheduler.Push(1, {LaneCommand::kWait, 0, scheduler.Rounds(0)});
    scheduler.Push(1, {LaneCommand::kRun, 2});
    if (scheduler.Drain(std::nullopt, kStallLimit_s) != Outcome::kDone) return 0;
  }
  return Summarize(wakes.waited_s()).median;
}

}  // namespace

// Long after the thread has stopped to look, and than it takes to wake up.
double MeasureWakeSeconds() { return MedianWait(10 * LaneScheduler::kLookSeconds); }

double MeasureHandoffSeconds() { return MedianWait(0.4 * LaneScheduler::kLookSeconds); }

}  // namespace twinstep
