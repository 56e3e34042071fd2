#include "traces/activity_comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "sim/str_cat.h"
#include "traces/trace_title.h"

namespace twinstep {
namespace {

// By falling difference, then by time, then by name.
template <typename Entry>
void SortByDifference(std::vector<Entry>* entries) {
  std::sort(entries->begin(), entries->end(), [](const Entry& x, const Entry& y) {
    const double in_x = std::abs(x.time.Difference()), in_y = std::abs(y.time.Difference());
    if (in_x != in_y) return in_x > in_y;
    return x.time.b_s != y.time.b_s ? x.time.b_s > y.time.b_s : x.name < y.name;
  });
}

void AddClasses(ActivityComparison* out) {
  for (int i = 0; i < kOperatorClassCount; ++i) {
    const ClassActivity& a = out->a.classes[static_cast<std::size_t>(i)];
    const ClassActivity& b = out->b.classes[static_cast<std::size_t>(i)];
    if (a.tasks == 0 && b.tasks == 0) continue;
    out->classes.push_back({static_cast<OperatorClass>(i),
                            a.tasks,
                            b.tasks,
                            {a.time_s, b.time_s},
                            {a.busy_s, b.busy_s},
                            {a.exposed_s, b.exposed_s}});
  }
}

void AddPhases(ActivityComparison* out) {
  std::map<std::string, TimePair> by_name;
  std::vector<std::string> order;
  const auto add = [&](const Activity& activity, double TimePair::*side) {
    for (const PhaseActivity& phase : activity.phases) {
      const auto [at, is_new] = by_name.try_emplace(phase.phase);
      if (is_new) order.push_back(phase.phase);
      at->second.*side += phase.time_s;
    }
  };
  add(out->a, &TimePair::a_s);
  add(out->b, &TimePair::b_s);
  for (const std::string& name : order) out->phases.push_back({name, by_name[name]});
}

void AddOperators(ActivityComparison* out) {
  std::map<std::string, ActivityOperatorComparison> by_name;
  for (const OperatorActivity& a : out->a.operators) {
    ActivityOperatorComparison& entry = by_name[a.name];
    entry.operator_class = a.operator_class;
    entry.a_tasks = a.tasks;
    entry.time.a_s = a.time_s;
    entry.median.a_s = a.median_s;
  }
  for (const OperatorActivity& b : out->b.operators) {
    ActivityOperatorComparison& entry = by_name[b.name];
    entry.operator_class = b.operator_class;
    entry.b_tasks = b.tasks;
    entry.time.b_s = b.time_s;
    entry.median.b_s = b.median_s;
  }
  for (auto& [name, entry] : by_name) {
    entry.name = name;
    out->operators.push_back(std::move(entry));
  }
  SortByDifference(&out->operators);
}

// Whether operators that both traces have make more than half of the time of each.
bool NamedAlike(const std::vector<ActivityOperatorComparison>& operators) {
  TimePair all, shared;
  for (const ActivityOperatorComparison& entry : operators) {
    all.a_s += entry.time.a_s;
    all.b_s += entry.time.b_s;
    if (entry.a_tasks == 0 || entry.b_tasks == 0) continue;
    shared.a_s += entry.time.a_s;
    shared.b_s += entry.time.b_s;
  }
  return 2 * shared.a_s > all.a_s && 2 * shared.b_s > all.b_s;
}

void AddLargest(std::size_t most, ActivityComparison* out) {
  out->largest_are_operators = NamedAlike(out->operators);
  if (out->largest_are_operators) {
    for (const ActivityOperatorComparison& entry : out->operators) {
      out->largest.push_back({entry.name, entry.time});
    }
  } else {
    std::map<std::string, TimePair> by_name;
    for (const PhaseActivity& x : out->a.phases) {
      by_name[StrCat(x.phase, " ", Name(x.operator_class))].a_s += x.time_s;
    }
    for (const PhaseActivity& x : out->b.phases) {
      by_name[StrCat(x.phase, " ", Name(x.operator_class))].b_s += x.time_s;
    }
    for (const auto& [name, time] : by_name) out->largest.push_back({name, time});
  }
  out->largest.push_back(
      {Label(ActivityPart::kIdle), out->parts[static_cast<std::size_t>(ActivityPart::kIdle)]});
  SortByDifference(&out->largest);
  std::erase_if(out->largest, [](const NamedTime& x) { return x.time.Difference() == 0; });
  if (out->largest.size() > most) out->largest.resize(most);
}

}  // namespace

ActivityComparison CompareActivities(const Trace& a, const Trace& b,
                                     std::optional<double> tolerance, std::size_t largest) {
  ActivityComparison out;
  std::tie(out.a_title, out.b_title) = TitlesOf(a, b);
  out.a_name = a.name();
  out.b_name = b.name();
  out.a = SummarizeActivity(a);
  out.b = SummarizeActivity(b);
  out.iteration = {out.a.iteration_s, out.b.iteration_s};
  for (std::size_t i = 0; i < out.parts.size(); ++i) {
    out.parts[i] = {out.a.part_s[i], out.b.part_s[i]};
  }
  AddClasses(&out);
  AddPhases(&out);
  AddOperators(&out);
  AddLargest(largest, &out);
  if (tolerance) {
    const std::optional<double> error = out.iteration.Error();
    out.verdict = Verdict{.what = "iteration",
                          .error = error,
                          .tolerance = *tolerance,
                          .ok = error.has_value() && std::abs(*error) <= *tolerance};
  }
  return out;
}

}  // namespace twinstep
