#include "validate/step_spread.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace twinstep {
namespace {

double ToSeconds(Picoseconds time_ps) {
  return static_cast<double>(time_ps) / kPicosecondsPerSecond;
}

// Of all ranks, by name of the kind of task.
std::map<std::string, Picoseconds> BusyTimes(const TaskGraph& graph, const Execution& step) {
  std::array<Picoseconds, kTaskKindCount> busy_ps{};
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    busy_ps[static_cast<std::size_t>(graph.tasks[id].kind)] += step.end_ps[id] - step.start_ps[id];
  }
  std::map<std::string, Picoseconds> by_name;
  for (std::size_t i = 0; i < busy_ps.size(); ++i) {
    by_name[Name(static_cast<TaskKind>(i))] = busy_ps[i];
  }
  return by_name;
}

void AddStep(const TaskGraph& graph, const Execution& step, StepSpread* spread) {
  spread->iteration.step_s.push_back(ToSeconds(step.iteration_ps));
  std::map<std::string, Picoseconds> busy_ps = BusyTimes(graph, step);
  for (StepSpread::Kind& kind : spread->kinds) {
    kind.busy.step_s.push_back(ToSeconds(busy_ps[kind.name]));
  }
  const std::vector<Breakdown> ranks =
      BreakDown(graph, step.start_ps, step.end_ps, step.iteration_ps);
  const auto mean_s = MeanSeconds(ranks, std::vector<std::uint32_t>(ranks.size(), 1));
  for (std::size_t i = 0; i < kExposedClasses.size(); ++i) {
    spread->exposed[i].step_s.push_back(mean_s[static_cast<std::size_t>(kExposedClasses[i])]);
  }
}

// The middle one; of an even number the lower of the two, of equal ones the first.
std::size_t MedianIndex(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>((order.size() - 1) / 2);
  std::ranges::nth_element(order, middle, [values](std::size_t a, std::size_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  return *middle;
}

}  // namespace

double StepTimes::Least() const { return *std::ranges::min_element(step_s); }

double StepTimes::Median() const { return step_s[MedianIndex(step_s)]; }

double StepTimes::Most() const { return *std::ranges::max_element(step_s); }

std::size_t MedianStep(std::span<const Execution> steps) {
  std::vector<double> step_s;
  for (const Execution& step : steps) step_s.push_back(ToSeconds(step.iteration_ps));
  return MedianIndex(step_s);
}

StepSpread SpreadOfSteps(const TaskGraph& graph, std::span<const Execution> steps,
                         const TraceComparison& comparison) {
  StepSpread spread;
  spread.iteration.simulated_s = comparison.iteration.a_s;
  for (const GroupComparison& kind : comparison.kinds) {
    spread.kinds.push_back({.name = kind.name, .busy = {.simulated_s = kind.busy.a_s}});
  }
  for (std::size_t i = 0; i < kExposedClasses.size(); ++i) {
    spread.exposed[i].simulated_s =
        comparison.mean_breakdown[static_cast<std::size_t>(kExposedClasses[i])].a_s;
  }
  for (const Execution& step : steps) AddStep(graph, step, &spread);
  return spread;
}

std::vector<Verdict> JudgeMedians(const StepSpread& spread, const TraceComparison& comparison,
                                  const Tolerances& tolerances) {
  TraceComparison medians;
  medians.iteration = spread.iteration.Judged();
  for (const StepSpread::Kind& kind : spread.kinds) {
    medians.kinds.push_back({.name = kind.name, .busy = kind.busy.Judged()});
  }
  for (std::size_t i = 0; i < kExposedClasses.size(); ++i) {
    medians.mean_breakdown[static_cast<std::size_t>(kExposedClasses[i])] =
        spread.exposed[i].Judged();
  }
  medians.memory = comparison.memory;
  return Judge(medians, tolerances);
}

}  // namespace twinstep
