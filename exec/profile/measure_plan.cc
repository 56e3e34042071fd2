#include "exec/profile/measure_plan.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

// Alone and busy times alternate, so that what else the machine does falls on both.
constexpr int kRounds = 4;
// Enough for any statistics; keeps memory small where iterations are short.
constexpr std::size_t kMostSamples = 20'000;
constexpr double kSecondsPerNanosecond = 1e-9;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A task's primitive by number; graphs have many tasks and few primitives.
class PrimitiveIndex {
 public:
  explicit PrimitiveIndex(const TaskGraph& graph) : primitives_(PrimitivesOf(graph)) {
    std::map<Primitive, std::uint32_t> numbers;
    for (const Primitive& primitive : primitives_) {
      numbers.emplace(primitive, static_cast<std::uint32_t>(numbers.size()));
    }
    of_task_.reserve(graph.tasks.size());
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      const auto primitive = PrimitiveOf(graph, id);
      of_task_.push_back(primitive && StandsForAll(graph, id) ? numbers.at(*primitive) : kNone);
    }
  }

  // kNone if another task of its rendezvous stands for it.
  std::uint32_t Of(TaskId id) const { return of_task_[id]; }
  const std::vector<Primitive>& primitives() const { return primitives_; }

 private:
  // The members of a collective run as one: the first rank's task counts.
  static bool StandsForAll(const TaskGraph& graph, TaskId id) {
    const Task& task = graph.tasks[id];
    if (task.kind != TaskKind::kCollective) return true;
    const Group& group = graph.groups[graph.rendezvous[task.rendezvous].group];
    return group.members.front() == graph.ranks[task.rank].global_rank;
  }

  std::vector<Primitive> primitives_;
  std::vector<std::uint32_t> of_task_;
};

using TimesOfPrimitives = std::vector<std::vector<double>>;
using Runs = std::vector<std::unique_ptr<SerialRun>>;

// All runs at once, each on a thread of its own, until every one has an iteration that counts
// (which ran beside the others from begin to end) and the time is over.
class BusyPhase {
 public:
  // `iteration_s`: about what an iteration takes.
  BusyPhase(double seconds, double iteration_s) : seconds_(seconds), iteration_s_(iteration_s) {}

  // `collect(i)`: an iteration of run i is done and counts; called from that run's thread.
  Status Run(Runs* runs, const std::function<void(std::size_t)>& collect) {
    counted_.assign(runs->size(), 0);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < runs->size(); ++i) {
      threads.emplace_back([this, runs, &collect, i] { Repeat(runs, i, collect); });
    }
    WaitUntilEnough();
    for (std::thread& thread : threads) thread.join();
    if (error_.has_value()) return *error_;
    return Unit{};
  }

 private:
  void Repeat(Runs* runs, std::size_t i, const std::function<void(std::size_t)>& collect) {
    // Not all in the same operator at the same time.
    std::this_thread::sleep_for(std::chrono::duration<double>(
        iteration_s_ * static_cast<double>(i) / static_cast<double>(runs->size())));
    for (bool warm = false; RunOne((*runs)[i].get()); warm = true) {
      if (!warm) continue;
      collect(i);
      const std::lock_guard<std::mutex> lock(mutex_);
      ++counted_[i];
      changed_.notify_one();
    }
  }

  // False if the phase has ended meanwhile.
  bool RunOne(SerialRun* run) {
    const Status done = run->RunIteration();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!done.ok()) error_ = done.error();
    if (error_.has_value()) changed_.notify_one();
    return !stop_ && !error_.has_value();
  }

  void WaitUntilEnough() {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds_);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] {
      return error_.has_value() || std::find(counted_.begin(), counted_.end(), 0) == counted_.end();
    });
    changed_.wait_until(lock, end, [this] { return error_.has_value(); });
    stop_ = true;
  }

  const double seconds_, iteration_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> counted_;  // Iterations, by run.
  bool stop_ = false;
  std::optional<Error> error_;
};

class PlanMeasurement {
 public:
  PlanMeasurement(const LoweredPlan& lowered, const MeasureOptions& options)
      : lowered_(lowered), options_(options), index_(lowered.graph) {
    alone_.resize(index_.primitives().size());
    busy_.resize(index_.primitives().size());
  }

  Status Run() {
    for (int i = 0; i < std::max(1, options_.threads); ++i) {
      Result<std::unique_ptr<SerialRun>> run = SerialRun::Create(lowered_);
      if (!run.ok()) return run.error();
      runs_.push_back(std::move(run).value());
    }
    const Clock::time_point begin = Clock::now();
    const bool has_busy = runs_.size() > 1;
    const double phase_s = options_.seconds / kRounds / (has_busy ? 2 : 1);
    for (int round = 0; round < kRounds; ++round) {
      if (const Status alone = MeasureAlone(phase_s); !alone.ok()) return alone;
      if (has_busy) {
        if (const Status busy = MeasureBusy(phase_s); !busy.ok()) return busy;
      }
      if (options_.progress) options_.progress((round + 1.0) / kRounds);
      if (Since(begin) > options_.seconds) break;
    }
    return Unit{};
  }

  void AddTo(PrimitiveSamples* samples) const {
    for (std::size_t i = 0; i < alone_.size(); ++i) {
      PrimitiveTimes& times = samples->times[index_.primitives()[i]];
      times.alone_s.insert(times.alone_s.end(), alone_[i].begin(), alone_[i].end());
      times.busy_s.insert(times.busy_s.end(), busy_[i].begin(), busy_[i].end());
    }
    samples->gap_s.insert(samples->gap_s.end(), gaps_.begin(), gaps_.end());
  }

 private:
  // The first iteration only brings the run's memory back into the caches.
  Status MeasureAlone(double seconds) {
    const Clock::time_point begin = Clock::now();
    bool warm = false;
    do {
      if (const Status done = runs_[0]->RunIteration(); !done.ok()) return done;
      if (warm) {
        Collect(*runs_[0], &alone_);
        CollectGaps();
      }
    } while (!std::exchange(warm, true) || Since(begin) < seconds);
    return Unit{};
  }

  Status MeasureBusy(double seconds) {
    BusyPhase phase(seconds, iteration_s_);
    std::vector<TimesOfPrimitives> times(runs_.size(), TimesOfPrimitives(busy_.size()));
    const Status done = phase.Run(&runs_, [&](std::size_t i) { Collect(*runs_[i], &times[i]); });
    if (!done.ok()) return done;
    for (const TimesOfPrimitives& of_run : times) {
      for (std::size_t i = 0; i < busy_.size(); ++i) Append(of_run[i], &busy_[i]);
    }
    return Unit{};
  }

  static void Append(const std::vector<double>& more, std::vector<double>* times) {
    const std::size_t room = kMostSamples - std::min(kMostSamples, times->size());
    times->insert(times->end(), more.begin(),
                  more.begin() + static_cast<std::ptrdiff_t>(std::min(room, more.size())));
  }

  void Collect(const SerialRun& run, TimesOfPrimitives* times) const {
    for (TaskId id = 0; id < lowered_.graph.TaskCount(); ++id) {
      const std::uint32_t primitive = index_.Of(id);
      if (primitive == kNone || (*times)[primitive].size() >= kMostSamples) continue;
      const TaskTime time = run.Time(id);
      (*times)[primitive].push_back(static_cast<double>(time.end_ns - time.start_ns) *
                                    kSecondsPerNanosecond);
    }
  }

  void CollectGaps() {
    std::vector<TaskTime> tasks;
    for (TaskId id = 0; id < lowered_.graph.TaskCount(); ++id) {
      if (index_.Of(id) != kNone) tasks.push_back(runs_[0]->Time(id));
    }
    std::sort(tasks.begin(), tasks.end(),
              [](const TaskTime& a, const TaskTime& b) { return a.start_ns < b.start_ns; });
    for (std::size_t i = 1; i < tasks.size() && gaps_.size() < kMostSamples; ++i) {
      gaps_.push_back(static_cast<double>(tasks[i].start_ns - tasks[i - 1].end_ns) *
                      kSecondsPerNanosecond);
    }
    iteration_s_ = static_cast<double>(tasks.back().end_ns) * kSecondsPerNanosecond;
  }

  const LoweredPlan& lowered_;
  const MeasureOptions& options_;
  const PrimitiveIndex index_;
  Runs runs_;
  TimesOfPrimitives alone_, busy_;  // By primitive.
  std::vector<double> gaps_;
  double iteration_s_ = 0;
};

}  // namespace

Status MeasurePlan(const LoweredPlan& lowered, const MeasureOptions& options,
                   PrimitiveSamples* samples) {
  PlanMeasurement measurement(lowered, options);
  if (const Status done = measurement.Run(); !done.ok()) return done;
  measurement.AddTo(samples);
  return Unit{};
}

}  // namespace twinstep
