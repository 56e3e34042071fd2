#include "validate/busy_machine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/format.h"
#include "sim/graph/ids.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Of the time of computation. Quiet machines stay well below: tasks that wait for memory, or run
// beside copies, differ by some per cent.
constexpr double kLargeExcess = 0.15;

struct TaskTime {
  double simulated_ps = 0, executed_ps = 0;

  double Ratio() const { return executed_ps / simulated_ps; }
};

double MedianRatio(std::vector<TaskTime>* tasks) {
  const auto middle = tasks->begin() + static_cast<std::ptrdiff_t>(tasks->size() / 2);
  std::nth_element(tasks->begin(), middle, tasks->end(),
                   [](const TaskTime& a, const TaskTime& b) { return a.Ratio() < b.Ratio(); });
  return middle->Ratio();
}

// By operator and phase.
using Groups = std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<TaskTime>>;

Groups Computation(const Trace& simulated, const Trace& executed) {
  std::unordered_map<std::uint32_t, std::int64_t> executed_ps;
  for (int i = 0; i < executed.task_size(); ++i) {
    executed_ps[executed.task(i)] = executed.end_ps(i) - executed.start_ps(i);
  }
  Groups groups;
  for (int i = 0; i < simulated.task_size(); ++i) {
    if (simulated.kinds(static_cast<int>(simulated.kind(i))) != Name(TaskKind::kCompute)) continue;
    const auto at = executed_ps.find(simulated.task(i));
    const std::int64_t simulated_ps = simulated.end_ps(i) - simulated.start_ps(i);
    if (at == executed_ps.end() || simulated_ps == 0) continue;
    groups[{simulated.op(i), simulated.phase(i)}].push_back(
        {static_cast<double>(simulated_ps), static_cast<double>(at->second)});
  }
  return groups;
}

std::string Signed(double fraction) { return (fraction > 0 ? "+" : "") + Percent(fraction); }

}  // namespace

std::string BusyMachine::Text() const {
  return StrCat("the machine was busy with other work: ", Percent(excess),
                " of computation's time is what some tasks took longer than most of their kind "
                "(error of the median task ",
                Signed(median_error), ", of the sum ", Signed(sum_error), ")");
}

std::optional<BusyMachine> LookForOtherWork(const Trace& simulated, const Trace& executed) {
  double simulated_ps = 0, executed_ps = 0, regular_ps = 0;
  std::vector<TaskTime> all;
  for (auto& [key, tasks] : Computation(simulated, executed)) {
    std::vector<TaskTime> sorted = tasks;
    const double median = MedianRatio(&sorted);
    for (const TaskTime& task : tasks) {
      simulated_ps += task.simulated_ps;
      executed_ps += task.executed_ps;
      regular_ps += std::min(task.executed_ps, task.simulated_ps * median);
      all.push_back(task);
    }
  }
  if (executed_ps == 0) return std::nullopt;
  const double excess = 1 - regular_ps / executed_ps;
  if (excess < kLargeExcess) return std::nullopt;
  const double median = MedianRatio(&all);
  return BusyMachine{.median_error = median > 0 ? 1 / median - 1 : 0,
                     .sum_error = simulated_ps / executed_ps - 1,
                     .excess = excess};
}

}  // namespace twinstep
