#include "validate/step_spread_report.h"

#include <algorithm>
#include <optional>

#include "sim/report/text_table.h"
#include "sim/str_cat.h"
#include "traces/time_cells.h"

namespace twinstep {
namespace {

nlohmann::ordered_json TimesJson(const StepTimes& times) {
  const std::optional<double> error = times.Judged().Error();
  return {{"a_s", times.simulated_s},
          {"step_s", times.step_s},
          {"least_s", times.Least()},
          {"median_s", times.Median()},
          {"most_s", times.Most()},
          {"error", error ? nlohmann::ordered_json(*error) : nlohmann::ordered_json(nullptr)}};
}

}  // namespace

std::string SpreadText(const StepSpread& spread, const TraceComparison& comparison) {
  const std::size_t steps = spread.iteration.step_s.size();
  if (steps < 2) return "";
  const TimeCells time(comparison.iteration);
  TextTable table({time.unit(), comparison.a_title, "least", "median", "most", "error of median"});
  const auto add = [&](const std::string& name, const StepTimes& times, double ranks) {
    table.AddRow({name, time(times.simulated_s / ranks), time(times.Least() / ranks),
                  time(times.Median() / ranks), time(times.Most() / ranks),
                  SignedPercent(times.Judged().Error())});
  };
  add("iteration", spread.iteration, 1);
  const double ranks = static_cast<double>(std::max<std::size_t>(1, comparison.ranks.size()));
  for (const StepSpread::Kind& kind : spread.kinds) add(kind.name, kind.busy, ranks);
  for (std::size_t i = 0; i < kExposedClasses.size(); ++i) {
    const StepTimes& times = spread.exposed[i];
    if (times.simulated_s != 0 || times.Most() != 0) add(Label(kExposedClasses[i]), times, 1);
  }
  return StrCat("\nAll ", steps, " steps, mean of all ranks: each row's own median is judged\n",
                table.ToString());
}

nlohmann::ordered_json ToJson(const StepSpread& spread) {
  nlohmann::ordered_json json = {{"kinds", nlohmann::ordered_json::array()},
                                 {"exposed", nlohmann::ordered_json::object()}};
  for (const StepSpread::Kind& kind : spread.kinds) {
    nlohmann::ordered_json entry = {{"name", kind.name}};
    entry.update(TimesJson(kind.busy));
    json["kinds"].push_back(std::move(entry));
  }
  for (std::size_t i = 0; i < kExposedClasses.size(); ++i) {
    json["exposed"][JsonName(kExposedClasses[i])] = TimesJson(spread.exposed[i]);
  }
  return json;
}

}  // namespace twinstep
