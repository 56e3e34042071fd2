// Random programs of several ranks and processes never deadlock with late lanes, and each task runs
// once, when all that it waits for has run.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exec/cuda/late_lanes.h"
#include "tests/exec/cuda/fake_gpus.h"

namespace twinstep::cuda {
namespace {

constexpr std::size_t kLanes = 5;      // Of a rank.
constexpr std::size_t kFirstLate = 2;  // Lanes before it are eager, lane 1 meets.
constexpr auto kLimit = std::chrono::seconds(20);

struct RandomTask {
  std::size_t rank = 0, lane = 0;
  std::uint32_t meeting = kNone;
  std::vector<TaskId> after;  // Of the same rank, issued before.
};

// Tasks in issue order; members of a meeting, one a rank, stand side by side.
struct RandomProgram {
  std::size_t ranks = 1, processes = 1, meetings = 0;
  bool one_thread_a_rank = true;
  std::vector<RandomTask> tasks;
  std::vector<std::size_t> queue_of_stream;  // By rank and lane.

  std::size_t ProcessOf(std::size_t rank) const { return rank * processes / ranks; }
  std::size_t StreamOf(TaskId id) const { return tasks[id].rank * kLanes + tasks[id].lane; }
  bool IsLate(TaskId id) const { return tasks[id].lane >= kFirstLate; }
};

RandomProgram DrawProgram(std::mt19937_64* random) {
  const auto below = [random](std::size_t n) { return static_cast<std::size_t>((*random)() % n); };
  RandomProgram program;
  program.ranks = 1 + below(4);
  program.processes = 1 + below(program.ranks);
  program.one_thread_a_rank = below(2) == 0;
  std::vector<std::vector<TaskId>> of_rank(program.ranks);
  const auto add = [&](std::size_t rank, std::size_t lane, std::uint32_t meeting) {
    RandomTask task{.rank = rank, .lane = lane, .meeting = meeting, .after = {}};
    std::vector<TaskId>& before = of_rank[rank];
    // Mostly what came just before, as where few buffers are used again and again.
    for (std::size_t i = below(4); i > 0 && !before.empty(); --i) {
      const std::size_t reach =
          below(4) == 0 ? before.size() : std::min<std::size_t>(6, before.size());
      task.after.push_back(before[before.size() - 1 - below(reach)]);
    }
    before.push_back(static_cast<TaskId>(program.tasks.size()));
    program.tasks.push_back(task);
  };
  for (std::size_t i = 1 + below(80); i > 0; --i) {
    if (below(6) == 0) {
      for (std::size_t rank = 0; rank < program.ranks; ++rank) {
        add(rank, 1, static_cast<std::uint32_t>(program.meetings));
      }
      ++program.meetings;
    } else {
      add(below(program.ranks), below(kLanes), kNone);
    }
  }
  const std::size_t queues = 1 + below(kLanes);
  for (std::size_t stream = 0; stream < program.ranks * kLanes; ++stream) {
    program.queue_of_stream.push_back(stream / kLanes * queues + stream % kLanes % queues);
  }
  return program;
}

// How often each task has run, and what was wrong.
class Ledger {
 public:
  explicit Ledger(const RandomProgram& program) : program_(program), runs_(program.tasks.size()) {}

  void Run(TaskId id) {
    const std::lock_guard lock(mutex_);
    ++runs_[id];
    CheckAfter(id, runs_[id], "runs");
  }
  // A late task, which begins when nothing is left to wait for.
  void Launch(TaskId id) {
    const std::lock_guard lock(mutex_);
    CheckAfter(id, runs_[id] + 1, "is launched");
  }
  void Note(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (problem_.empty()) problem_ = what;
  }
  std::string problem(int iterations) {
    const std::lock_guard lock(mutex_);
    for (TaskId id = 0; id < runs_.size(); ++id) {
      if (problem_.empty() && runs_[id] != iterations) {
        problem_ = "task " + std::to_string(id) + " ran " + std::to_string(runs_[id]) + " times";
      }
    }
    return problem_;
  }

 private:
  void CheckAfter(TaskId id, int run, const char* what) {
    for (const TaskId before : program_.tasks[id].after) {
      if (runs_[before] == run || !problem_.empty()) continue;
      problem_ = "task " + std::to_string(id) + " " + what + " without " + std::to_string(before);
    }
  }

  const RandomProgram& program_;
  std::mutex mutex_;
  std::vector<int> runs_;
  std::string problem_;
};

// A process: dispatches as the CUDA backend does. A task's event has its number.
class Process : private LateDevice {
 public:
  Process(const RandomProgram& program, std::size_t process, FakeGpus* gpus, Ledger* ledger)
      : program_(program), process_(process), gpus_(*gpus), ledger_(*ledger) {
    LateLanes::Sizes sizes{.lane_commands = std::vector<std::size_t>(program.ranks * kLanes, 0),
                           .thread_of_lane = std::vector<std::size_t>(program.ranks * kLanes, 0),
                           .events = program.tasks.size()};
    for (TaskId id = 0; id < program.tasks.size(); ++id) {
      if (!IsOwn(id)) continue;
      const std::size_t stream = program.StreamOf(id);
      own_streams_.push_back(stream);
      if (program.one_thread_a_rank) sizes.thread_of_lane[stream] = program.tasks[id].rank;
      if (program.IsLate(id)) sizes.lane_commands[stream] += program.tasks[id].after.size() + 2;
    }
    late_ = std::make_unique<LateLanes>(sizes, static_cast<LateDevice*>(this));
  }

  // False if nothing moves any more.
  bool RunIteration() {
    late_->BeginIteration();
    for (TaskId id = 0; id < program_.tasks.size(); ++id) {
      if (!IsOwn(id)) continue;
      if (program_.IsLate(id)) {
        DispatchLate(id);
      } else if (!DispatchEager(id)) {
        return false;
      }
    }
    if (late_->AwaitDrained(kLimit) != LateLanes::State::kDone) {
      ledger_.Note("process " + std::to_string(process_) + " has late tasks that never begin");
      return false;
    }
    if (gpus_.AwaitIdle(own_streams_, kLimit)) return true;
    ledger_.Note("process " + std::to_string(process_) + " has streams that never end");
    return false;
  }

 private:
  bool IsOwn(TaskId id) const { return program_.ProcessOf(program_.tasks[id].rank) == process_; }

  void DispatchLate(TaskId id) {
    const std::size_t lane = program_.StreamOf(id);
    for (const TaskId before : program_.tasks[id].after) late_->Wait(lane, before, id);
    late_->Launch(lane, id);
    late_->Record(lane, id, id);
  }

  bool DispatchEager(TaskId id) {
    const RandomTask& task = program_.tasks[id];
    const std::size_t stream = program_.StreamOf(id);
    for (const TaskId before : task.after) {
      if (late_->AwaitRecorded(before, kLimit) != LateLanes::State::kDone) {
        ledger_.Note("process " + std::to_string(process_) + " waits for task " +
                     std::to_string(before) + " for ever");
        return false;
      }
      gpus_.Wait(stream, before);
    }
    if (task.meeting == kNone) {
      gpus_.Launch(stream, id);
    } else {
      gpus_.Meet(stream, task.meeting, id);
    }
    gpus_.Record(stream, id);
    return true;
  }

  Status StartThread(std::size_t) override { return Unit{}; }
  Result<bool> Happened(EventId event) override { return gpus_.Happened(event); }
  Status LaunchNow(TaskId id) override {
    ledger_.Launch(id);
    gpus_.Launch(program_.StreamOf(id), id);
    return Unit{};
  }
  Status RecordNow(EventId event, TaskId id) override {
    gpus_.Record(program_.StreamOf(id), event);
    return Unit{};
  }

  const RandomProgram& program_;
  std::size_t process_;
  FakeGpus& gpus_;
  Ledger& ledger_;
  std::vector<std::size_t> own_streams_;
  std::unique_ptr<LateLanes> late_;
};

RC_GTEST_PROP(LateLanesProperty, RandomProgramsRunToTheirEnd, ()) {
  constexpr int kIterations = 3;
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const RandomProgram program = DrawProgram(&random);
  Ledger ledger(program);
  FakeGpus gpus({.queue_of_stream = program.queue_of_stream,
                 .events = program.tasks.size(),
                 .meeting_members = std::vector<std::size_t>(program.meetings, program.ranks),
                 .seed = random()},
                [&ledger](TaskId id) { ledger.Run(id); });
  {
    std::vector<std::unique_ptr<Process>> processes;
    for (std::size_t i = 0; i < program.processes; ++i) {
      processes.push_back(std::make_unique<Process>(program, i, &gpus, &ledger));
    }
    std::vector<std::jthread> dispatchers;
    for (const auto& process : processes) {
      dispatchers.emplace_back([&process] {
        for (int i = 0; i < kIterations && process->RunIteration(); ++i) continue;
      });
    }
  }
  RC_ASSERT(ledger.problem(kIterations) == std::string());
}

}  // namespace
}  // namespace twinstep::cuda
