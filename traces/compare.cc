#include "traces/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

#include "sim/str_cat.h"
#include "traces/same_graph.h"
#include "traces/trace_title.h"

namespace twinstep {
namespace {

// Kinds with less of all busy time are not judged, nor exposed times with less of the iteration.
constexpr double kLeastBusyShare = 0.01;
constexpr double kLeastExposedShare = 0.05;

double ToSeconds(std::int64_t time_ps) {
  return static_cast<double>(time_ps) / kPicosecondsPerSecond;
}

std::optional<double> RelativeError(double a, double b) {
  if (b != 0) return a / b - 1;
  if (a == 0) return 0;
  return std::nullopt;
}

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// The tasks of one enumerator while they are counted.
struct Group {
  std::int64_t tasks = 0;
  std::int64_t a_ps = 0, b_ps = 0;
  std::vector<double> errors;
  std::array<std::int64_t, kEvidenceCount> evidence{};
};

class Comparer {
 public:
  Comparer(const Trace& a, const Trace& b, const TaskPairs& pairs, const CompareOptions& options)
      : a_(a), b_(b), pairs_(pairs), options_(options) {}

  Result<TraceComparison> Run() {
    Title();
    if (const Status status = AddBreakdowns(); !status.ok()) return status.error();
    AddGroups();
    AddLargestTasks();
    AddMemory();
    out_.verdicts = Judge(out_, options_.tolerances);
    return std::move(out_);
  }

 private:
  void Title() {
    std::tie(out_.a_title, out_.b_title) = TitlesOf(a_, b_);
    out_.a_name = a_.name();
    out_.b_name = b_.name();
    out_.tasks = a_.task_size();
    out_.iteration = {ToSeconds(a_.iteration_ps()), ToSeconds(b_.iteration_ps())};
  }

  Status AddBreakdowns() {
    const Result<std::vector<Breakdown>> in_a = BreakDown(a_);
    if (!in_a.ok()) return in_a.error();
    const Result<std::vector<Breakdown>> in_b = BreakDown(b_);
    if (!in_b.ok()) return in_b.error();
    std::map<std::uint32_t, std::size_t> rank_in_b;
    for (int i = 0; i < b_.ranks_size(); ++i) {
      rank_in_b[b_.ranks(i).global_rank()] = static_cast<std::size_t>(i);
    }
    std::vector<Breakdown> same_order;
    std::vector<std::uint32_t> class_size;
    for (int i = 0; i < a_.ranks_size(); ++i) {
      const std::uint32_t global_rank = a_.ranks(i).global_rank();
      const auto at = rank_in_b.find(global_rank);
      if (at == rank_in_b.end()) {
        return Error{.message = StrCat("the traces are not of the same graph: rank ", global_rank,
                                       " of A is missing in B")};
      }
      same_order.push_back(in_b.value()[at->second]);
      class_size.push_back(std::max(1u, a_.ranks(i).class_size()));
      out_.ranks.push_back(
          {global_rank, in_a.value()[static_cast<std::size_t>(i)], same_order.back()});
    }
    const auto mean_a = MeanSeconds(in_a.value(), class_size);
    const auto mean_b = MeanSeconds(same_order, class_size);
    for (std::size_t i = 0; i < mean_a.size(); ++i) out_.mean_breakdown[i] = {mean_a[i], mean_b[i]};
    return Unit{};
  }

  std::int64_t DurationInA(std::size_t task) const {
    return a_.end_ps(pairs_.a[task]) - a_.start_ps(pairs_.a[task]);
  }
  std::int64_t DurationInB(std::size_t task) const {
    return b_.end_ps(pairs_.b[task]) - b_.start_ps(pairs_.b[task]);
  }

  using Column = google::protobuf::RepeatedField<std::uint32_t>;
  using Names = google::protobuf::RepeatedPtrField<std::string>;

  std::vector<GroupComparison> GroupBy(const Column& column, const Names& names) const {
    std::vector<Group> groups(static_cast<std::size_t>(names.size()));
    for (std::size_t task = 0; task < pairs_.a.size(); ++task) {
      Group& group = groups[column[pairs_.a[task]]];
      const std::int64_t in_a = DurationInA(task), in_b = DurationInB(task);
      ++group.tasks;
      group.a_ps += in_a;
      group.b_ps += in_b;
      if (in_b > 0) {
        group.errors.push_back(static_cast<double>(in_a) / static_cast<double>(in_b) - 1);
      }
      if (!options_.evidence.empty()) {
        ++group.evidence[static_cast<std::size_t>(options_.evidence[task])];
      }
    }
    std::vector<GroupComparison> result;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      Group& group = groups[i];
      if (group.tasks == 0) continue;
      result.push_back({.name = names[static_cast<int>(i)],
                        .tasks = group.tasks,
                        .busy = {ToSeconds(group.a_ps), ToSeconds(group.b_ps)},
                        .median_task_error = Median(std::move(group.errors)),
                        .evidence = group.evidence});
    }
    return result;
  }

  void AddGroups() {
    out_.kinds = GroupBy(a_.kind(), a_.kinds());
    out_.lanes = GroupBy(a_.lane(), a_.lanes());
    out_.phases = GroupBy(a_.phase(), a_.phases());
    out_.operators = GroupBy(a_.op(), a_.operators());
    std::stable_sort(out_.operators.begin(), out_.operators.end(),
                     [](const GroupComparison& x, const GroupComparison& y) {
                       return std::abs(x.busy.Difference()) > std::abs(y.busy.Difference());
                     });
  }

  void AddLargestTasks() {
    std::vector<TaskId> tasks(pairs_.a.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i] = static_cast<TaskId>(i);
    const auto difference = [this](TaskId task) {
      return std::abs(DurationInA(task) - DurationInB(task));
    };
    const std::size_t count = std::min(options_.largest, tasks.size());
    std::partial_sort(tasks.begin(), tasks.begin() + static_cast<std::ptrdiff_t>(count),
                      tasks.end(), [&](TaskId x, TaskId y) {
                        const std::int64_t in_x = difference(x), in_y = difference(y);
                        return in_x != in_y ? in_x > in_y : x < y;
                      });
    for (std::size_t i = 0; i < count && difference(tasks[i]) > 0; ++i) {
      const TaskId task = tasks[i];
      out_.largest.push_back(
          {.task = task,
           .name = EventName(a_, pairs_.a[task]),
           .time = {ToSeconds(DurationInA(task)), ToSeconds(DurationInB(task))}});
    }
  }

  // By pool and global rank.
  static std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> Peaks(const Trace& trace) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> peaks;
    for (const Trace::MemoryCurve& curve : trace.memory()) {
      const std::uint32_t rank = trace.ranks(static_cast<int>(curve.rank())).global_rank();
      std::int64_t& peak = peaks[{curve.pool(), rank}];
      for (const std::int64_t bytes : curve.live_bytes()) peak = std::max(peak, bytes);
    }
    return peaks;
  }

  void AddMemory() {
    const auto in_b = Peaks(b_);
    std::map<std::uint32_t, MemoryComparison> by_pool;
    for (const auto& [key, bytes] : Peaks(a_)) {
      const auto& [pool, rank] = key;
      const auto at = in_b.find(key);
      if (at == in_b.end()) continue;
      const MemoryComparison here{static_cast<Pool>(pool), rank, bytes, at->second};
      const auto [worst, is_new] = by_pool.try_emplace(pool, here);
      const auto error = [](const MemoryComparison& x) {
        return std::abs(
            RelativeError(static_cast<double>(x.a_bytes), static_cast<double>(x.b_bytes))
                .value_or(HUGE_VAL));
      };
      if (!is_new && error(here) > error(worst->second)) worst->second = here;
    }
    for (const auto& [pool, memory] : by_pool) out_.memory.push_back(memory);
  }

  const Trace& a_;
  const Trace& b_;
  const TaskPairs& pairs_;
  const CompareOptions& options_;
  TraceComparison out_;
};

Verdict MakeVerdict(std::string what, std::optional<double> error, double tolerance) {
  const bool ok = error.has_value() && std::abs(*error) <= tolerance;
  return {std::move(what), error, tolerance, ok};
}

}  // namespace

const char* Name(Evidence evidence) {
  switch (evidence) {
    case Evidence::kMeasured:
      return "measured";
    case Evidence::kExtrapolated:
      return "extrapolated";
    case Evidence::kModelled:
      return "modelled";
  }
  return "";
}

std::optional<double> TimePair::Error() const { return RelativeError(a_s, b_s); }

bool TraceComparison::ok() const {
  return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& x) { return x.ok; });
}

std::vector<Verdict> Judge(const TraceComparison& x, const Tolerances& tolerances) {
  std::vector<Verdict> verdicts;
  if (tolerances.iteration) {
    verdicts.push_back(MakeVerdict("iteration", x.iteration.Error(), *tolerances.iteration));
  }
  if (tolerances.kind_busy) {
    double all_s = 0;
    for (const GroupComparison& kind : x.kinds) all_s += kind.busy.b_s;
    for (const GroupComparison& kind : x.kinds) {
      if (std::max(kind.busy.a_s, kind.busy.b_s) < kLeastBusyShare * all_s) continue;
      verdicts.push_back(
          MakeVerdict("busy time of " + kind.name, kind.busy.Error(), *tolerances.kind_busy));
    }
  }
  if (tolerances.exposed) {
    for (const TimeClass time_class : kExposedClasses) {
      const TimePair& time = x.mean_breakdown[static_cast<std::size_t>(time_class)];
      if (time.b_s < kLeastExposedShare * x.iteration.b_s) continue;
      verdicts.push_back(MakeVerdict(Label(time_class), time.Error(), *tolerances.exposed));
    }
  }
  if (tolerances.memory) {
    for (const MemoryComparison& memory : x.memory) {
      verdicts.push_back(MakeVerdict(
          StrCat(Name(memory.pool), " memory of rank ", memory.global_rank),
          RelativeError(static_cast<double>(memory.a_bytes), static_cast<double>(memory.b_bytes)),
          *tolerances.memory));
    }
  }
  return verdicts;
}

Result<TraceComparison> CompareTraces(const Trace& a, const Trace& b,
                                      const CompareOptions& options) {
  const Result<TaskPairs> pairs = MatchTasks(a, b);
  if (!pairs.ok()) return pairs.error();
  if (!options.evidence.empty() && options.evidence.size() != pairs.value().a.size()) {
    return Error{.message = StrCat("evidence of ", options.evidence.size(),
                                   " tasks does not fit traces of ", pairs.value().a.size())};
  }
  return Comparer(a, b, pairs.value(), options).Run();
}

}  // namespace twinstep
