#include "exec/profile/measure_plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "exec/profile/machine.h"
#include "exec/profile/parallel_runs.h"
#include "exec/profile/statistics.h"
#include "exec/profile/task_company.h"
#include "exec/profile/task_seconds.h"

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

// Enough for any statistics; keeps memory small where iterations are short.
constexpr std::size_t kMostGaps = 20'000;
// A task counts as alone with less than this share of the other threads at work, as busy with more.
constexpr double kLittleCompany = 0.25, kMuchCompany = 0.75;
// With fewer tasks than this in a class, all are taken, whatever their company.
constexpr std::size_t kFewTasks = 5;
// What may be allocated of the memory that is free.
constexpr double kMemoryShare = 0.8;

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

// Tasks by the company that they had.
enum class Company : std::uint8_t { kAny, kLittle, kMuch };
constexpr std::size_t kCompanies = 3;

// Of one primitive in one kind of runs. The tasks of an iteration stand in different places, and
// their mean is what the iteration takes; iterations are what is repeated.
struct Measured {
  std::array<std::vector<double>, kCompanies> iteration_means_s;
  std::array<std::size_t, kCompanies> tasks{};

  void AddIteration(const std::array<std::vector<double>, kCompanies>& times_s) {
    for (std::size_t i = 0; i < kCompanies; ++i) {
      if (times_s[i].empty()) continue;
      iteration_means_s[i].push_back(Summarize(times_s[i]).mean);
      tasks[i] += times_s[i].size();
    }
  }
  const std::vector<double>& Of(Company company) const {
    const auto i = static_cast<std::size_t>(company);
    return iteration_means_s[tasks[i] < kFewTasks ? 0 : i];
  }
  void Append(const Measured& more) {
    for (std::size_t i = 0; i < kCompanies; ++i) {
      iteration_means_s[i].insert(iteration_means_s[i].end(), more.iteration_means_s[i].begin(),
                                  more.iteration_means_s[i].end());
      tasks[i] += more.tasks[i];
    }
  }
};
using MeasuredPrimitives = std::vector<Measured>;

void AppendTo(std::vector<double>* times, const std::vector<double>& more) {
  times->insert(times->end(), more.begin(), more.end());
}

class PlanMeasurement {
 public:
  PlanMeasurement(const LoweredPlan& lowered, const MeasureOptions& options)
      : lowered_(lowered), options_(options), index_(lowered.graph) {
    alone_.resize(index_.primitives().size());
    together_.resize(index_.primitives().size());
  }

  Status Run() {
    const Clock::time_point begin = Clock::now();
    if (const Status created = CreateRuns(); !created.ok()) return created;
    const bool has_busy = busy_threads() > 1;
    const double left_s = std::max(0.0, options_.seconds - Since(begin));
    const double phase_s = left_s / kMeasuringRounds / (has_busy ? 2 : 1);
    // Alternating, so that what else the machine does falls on both.
    for (int round = 0; round < kMeasuringRounds; ++round) {
      if (options_.begin_round) options_.begin_round();
      if (const Status alone = MeasureAlone(phase_s); !alone.ok()) return alone;
      if (has_busy) {
        if (const Status busy = MeasureTogether(phase_s); !busy.ok()) return busy;
      }
      if (Since(begin) > options_.seconds) break;
    }
    return Unit{};
  }

  void AddTo(PrimitiveSamples* samples) const {
    for (std::size_t i = 0; i < alone_.size(); ++i) {
      const Primitive& primitive = index_.primitives()[i];
      PrimitiveTimes& times = samples->times[primitive];
      const bool has_together = together_[i].tasks[0] > 0;
      const bool joins_ranks = primitive.group_size > 0;
      AppendTo(&times.alone_s, joins_ranks && has_together ? together_[i].Of(Company::kLittle)
                                                           : alone_[i].Of(Company::kAny));
      AppendTo(&times.busy_s, together_[i].Of(Company::kMuch));
    }
    samples->gap_s.insert(samples->gap_s.end(), gaps_.begin(), gaps_.end());
    if (busy_threads() > 1) {
      samples->busy_threads = samples->busy_threads == 0
                                  ? busy_threads()
                                  : std::min(samples->busy_threads, busy_threads());
    }
  }

 private:
  int ranks() const { return static_cast<int>(lowered_.graph.ranks.size()); }
  int threads_of_run() const { return std::min(options_.threads, ranks()); }
  int busy_threads() const { return static_cast<int>(together_runs_.size()) * threads_of_run(); }

  void BeginPhase(bool has_busy) const {
    if (options_.phase_times == nullptr) return;
    options_.phase_times->Begin(has_busy ? "tasks on busy threads" : "tasks alone");
  }

  // As many as fit into memory: one to run alone, and one more at least to run with others.
  Status CreateRuns() {
    const double memory = kMemoryShare * static_cast<double>(AllocatableBytes());
    const auto run_bytes = static_cast<double>(std::max<std::int64_t>(1, lowered_.ArenaBytes()));
    const int fit = static_cast<int>(std::clamp(memory / run_bytes, 1.0, 1e6)) - 1;
    const int wanted = options_.threads > 1 ? options_.threads / threads_of_run() : 0;
    for (int i = 0; i <= std::min(wanted, fit); ++i) {
      BeginPhase(i > 0);
      const PhaseTimes::Part part(options_.phase_times, &PhaseTime::starting_s);
      Result<std::unique_ptr<PlanRun>> run =
          PlanRun::Create(lowered_, {.threads = i == 0 ? 1 : threads_of_run()});
      if (!run.ok()) return run.error();
      (i == 0 ? serial_run_ : together_runs_.emplace_back()) = std::move(run).value();
    }
    return Unit{};
  }

  // The first iteration only brings the run's memory back into the caches; a long one does not
  // depend on what was there before.
  Status MeasureAlone(double seconds) {
    BeginPhase(/*has_busy=*/false);
    const PhaseTimes::Part part(options_.phase_times, &PhaseTime::measuring_s);
    const Clock::time_point begin = Clock::now();
    bool warm = false;
    do {
      if (const Status done = serial_run_->RunIteration(); !done.ok()) return done;
      if (std::exchange(warm, true) || Since(begin) > seconds) {
        CollectAlone();
      }
    } while (Since(begin) < seconds);
    return Unit{};
  }

  Status MeasureTogether(double seconds) {
    BeginPhase(/*has_busy=*/true);
    const PhaseTimes::Part part(options_.phase_times, &PhaseTime::measuring_s);
    std::vector<MeasuredPrimitives> measured(together_runs_.size(),
                                             MeasuredPrimitives(together_.size()));
    ParallelRuns runs(&together_runs_, iteration_s_);
    const Status done = runs.Repeat(
        seconds, [&](std::size_t i) { CollectTogether(*together_runs_[i], &measured[i]); });
    if (!done.ok()) return done;
    for (const MeasuredPrimitives& of_run : measured) {
      for (std::size_t i = 0; i < together_.size(); ++i) together_[i].Append(of_run[i]);
    }
    return Unit{};
  }

  // The last iteration of a run. `share` says how many of the other threads worked beside a task.
  void Collect(const PlanRun& run, const std::function<double(const TaskTime&)>& share,
               MeasuredPrimitives* measured) const {
    std::vector<std::array<std::vector<double>, kCompanies>> times_s(measured->size());
    for (TaskId id = 0; id < lowered_.graph.TaskCount(); ++id) {
      const std::uint32_t primitive = index_.Of(id);
      if (primitive == kNone) continue;
      const TaskTime time = run.Time(id);
      const double company = share(time);
      const auto add = [&](Company to) {
        times_s[primitive][static_cast<std::size_t>(to)].push_back(Seconds(time));
      };
      add(Company::kAny);
      if (company <= kLittleCompany) add(Company::kLittle);
      if (company >= kMuchCompany) add(Company::kMuch);
    }
    for (std::size_t i = 0; i < times_s.size(); ++i) (*measured)[i].AddIteration(times_s[i]);
  }

  void CollectAlone() {
    Collect(
        *serial_run_, [](const TaskTime&) { return 0.0; }, &alone_);
    CollectGaps();
  }

  // The other runs' threads are taken to work all the time.
  void CollectTogether(const PlanRun& run, MeasuredPrimitives* measured) const {
    const TaskCompany company(TimesOf(run));
    const double threads = busy_threads();
    const double of_other_runs = threads - threads_of_run();
    const auto share = [&](const TaskTime& time) {
      return std::min(1.0, (company.Of(time) + of_other_runs) / (threads - 1));
    };
    Collect(run, share, measured);
  }

  std::vector<TaskTime> TimesOf(const PlanRun& run) const {
    std::vector<TaskTime> times;
    for (TaskId id = 0; id < lowered_.graph.TaskCount(); ++id) {
      if (index_.Of(id) != kNone) times.push_back(run.Time(id));
    }
    return times;
  }

  void CollectGaps() {
    std::vector<TaskTime> times = TimesOf(*serial_run_);
    std::sort(times.begin(), times.end(),
              [](const TaskTime& a, const TaskTime& b) { return a.start_ns < b.start_ns; });
    for (std::size_t i = 1; i < times.size() && gaps_.size() < kMostGaps; ++i) {
      gaps_.push_back(static_cast<double>(times[i].start_ns - times[i - 1].end_ns) *
                      kSecondsPerNanosecond);
    }
    iteration_s_ = static_cast<double>(times.back().end_ns) * kSecondsPerNanosecond;
  }

  const LoweredPlan& lowered_;
  const MeasureOptions& options_;
  const PrimitiveIndex index_;
  std::unique_ptr<PlanRun> serial_run_;
  std::vector<std::unique_ptr<PlanRun>> together_runs_;
  MeasuredPrimitives alone_, together_;
  std::vector<double> gaps_;
  double iteration_s_ = 0;  // On one thread.
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
