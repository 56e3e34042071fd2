#include "traces/activity_text.h"

#include <algorithm>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/format.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"
#include "traces/time_cells.h"

namespace twinstep {
namespace {

// Names of kernels are long: what of them a table shows.
constexpr std::size_t kNameWidth = 44;

std::string Short(const std::string& name) { return ShortOperatorName(name, kNameWidth); }

std::string Headline(const ActivityComparison& x) {
  const auto tasks = [](const Activity& activity) {
    return StrCat(CountOf(activity.tasks, "task"), " of ",
                  CountOf(static_cast<std::int64_t>(activity.ranks.size()), "rank"));
  };
  std::string text =
      Paragraph("Comparison  ", 12,
                StrCat(x.a_title, " (", x.a_name, "): ", tasks(x.a), "; against ", x.b_title, " (",
                       x.b_name, "): ", tasks(x.b), "; by phase, kind and operator"));
  const TimeCells time(x.iteration);
  TextTable table({time.unit(), x.a_title, x.b_title, "difference", "of iteration", "error"});
  const auto add = [&](const std::string& name, const TimePair& pair) {
    table.AddRow({name, time(pair.a_s), time(pair.b_s), time.Difference(pair),
                  time.ShareOfIteration(pair), SignedPercent(pair.Error())});
  };
  for (int i = 0; i < kActivityPartCount; ++i) {
    add(Label(static_cast<ActivityPart>(i)), x.parts[static_cast<std::size_t>(i)]);
  }
  add("iteration", x.iteration);
  return StrCat(text,
                "\nWhere the time goes: mean of ranks, adds up to the iteration on both sides\n",
                table.ToString());
}

std::string RanksText(const ActivityComparison& x, std::size_t most) {
  if (x.a.ranks.size() < 2 && x.b.ranks.size() < 2) return "";
  const TimeCells time(x.iteration);
  TextTable table({"", "rank", "compute", "communication", "copies", "idle"});
  const auto add = [&](const std::string& title, const Activity& activity) {
    for (std::size_t i = 0; i < std::min(most, activity.ranks.size()); ++i) {
      std::vector<std::string> cells = {i == 0 ? title : "",
                                        std::to_string(activity.ranks[i].global_rank)};
      for (const Picoseconds part : activity.ranks[i].part_ps) {
        cells.push_back(time(static_cast<double>(part) / kPicosecondsPerSecond));
      }
      table.AddRow(std::move(cells));
    }
    if (activity.ranks.size() > most) {
      table.AddRow({"", StrCat("... ", activity.ranks.size() - most, " more"), "", "", "", ""});
    }
  };
  add(x.a_title, x.a);
  add(x.b_title, x.b);
  return StrCat("\nEach rank, ", time.unit(), ", exposed; a row adds up to the iteration\n",
                table.ToString());
}

// "12.3 | 11.9": both sides in one cell, or the table would be too wide.
std::string Both(const TimeCells& time, const TimePair& pair) {
  return StrCat(time(pair.a_s), " | ", time(pair.b_s));
}

std::string ClassesText(const ActivityComparison& x) {
  double longest_s = 0;
  for (const ActivityClassComparison& entry : x.classes) {
    longest_s = std::max({longest_s, entry.busy.a_s, entry.busy.b_s});
  }
  const TimeCells time({longest_s, longest_s});
  const TimeCells iteration(x.iteration);
  TextTable all({"kind", "tasks", "busy", "error", "of iteration"});
  TextTable moving({"kind", "busy", "exposed", "overlapped"});
  for (const ActivityClassComparison& entry : x.classes) {
    all.AddRow({Name(entry.operator_class),
                StrCat(Count(entry.a_tasks), " | ", Count(entry.b_tasks)), Both(time, entry.busy),
                SignedPercent(entry.busy.Error()), iteration.ShareOfIteration(entry.busy)});
    if (!IsCommunication(entry.operator_class) && !IsTransfer(entry.operator_class)) continue;
    moving.AddRow({Name(entry.operator_class), Both(time, entry.busy), Both(time, entry.exposed),
                   Both(time, entry.Overlapped())});
  }
  std::string text = StrCat("\nBy kind, ", time.unit(), ", mean of ranks: ", x.a_title, " | ",
                            x.b_title, "\n", all.ToString());
  if (moving.empty()) return text;
  return StrCat(text, "\nWhat of it hides behind computation, copies also behind communication, ",
                time.unit(), "\n", moving.ToString());
}

std::string PhasesText(const ActivityComparison& x) {
  const TimeCells time(x.iteration);
  TextTable table({"phase", x.a_title, x.b_title, "error", "of iteration"});
  for (const NamedTime& phase : x.phases) {
    table.AddRow({phase.name, time(phase.time.a_s), time(phase.time.b_s),
                  SignedPercent(phase.time.Error()), time.ShareOfIteration(phase.time)});
  }
  return StrCat("\nBy phase, time of its tasks added up, ", time.unit(), ", mean of ranks\n",
                table.ToString());
}

std::string OperatorsText(const ActivityComparison& x, std::size_t most) {
  double longest_s = 0, most_s = 0;
  const std::size_t shown = std::min(most, x.operators.size());
  for (std::size_t i = 0; i < shown; ++i) {
    most_s = std::max({most_s, x.operators[i].time.a_s, x.operators[i].time.b_s});
    longest_s = std::max({longest_s, x.operators[i].median.a_s, x.operators[i].median.b_s});
  }
  const TimeCells time({most_s, most_s});
  const TimeCells median({longest_s, longest_s});
  TextTable table({"operator", "tasks", time.unit(), "error", StrCat("median ", median.unit())});
  for (std::size_t i = 0; i < shown; ++i) {
    const ActivityOperatorComparison& entry = x.operators[i];
    table.AddRow({Short(entry.name), StrCat(Count(entry.a_tasks), " | ", Count(entry.b_tasks)),
                  Both(time, entry.time), SignedPercent(entry.time.Error()),
                  Both(median, entry.median)});
  }
  return StrCat("\nBy operator, largest difference first: ", x.a_title, " | ", x.b_title, "\n",
                table.ToString(),
                shown == x.operators.size() ? ""
                                            : StrCat("  ... ", x.operators.size() - shown,
                                                     " with less difference: --json\n"));
}

std::string LargestText(const ActivityComparison& x) {
  if (x.largest.empty()) return "";
  const TimeCells time(x.iteration);
  TextTable table({x.largest_are_operators ? "operator" : "phase and kind", x.a_title, x.b_title,
                   "difference", "of iteration"});
  for (const NamedTime& entry : x.largest) {
    table.AddRow({Short(entry.name), time(entry.time.a_s), time(entry.time.b_s),
                  time.Difference(entry.time), time.ShareOfIteration(entry.time)});
  }
  return StrCat("\nWhat makes the difference, ", time.unit(), "\n", table.ToString());
}

std::string VerdictText(const ActivityComparison& x) {
  if (!x.verdict) return "";
  return StrCat("\n", x.verdict->ok ? "within" : "OUT OF", " tolerance: ", x.verdict->what, " ",
                SignedPercent(x.verdict->error), " (", Percent(x.verdict->tolerance), ")\n");
}

}  // namespace

std::string ActivityText(const ActivityComparison& x, const ActivityTextOptions& options) {
  return Headline(x) + RanksText(x, options.ranks) + ClassesText(x) + PhasesText(x) +
         OperatorsText(x, options.operators) + LargestText(x) + VerdictText(x);
}

}  // namespace twinstep
