#include "traces/compare_text.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "sim/format.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"
#include "traces/time_cells.h"

namespace twinstep {
namespace {

std::string Headline(const TraceComparison& x) {
  const TimeCells time(x.iteration);
  std::string text =
      StrCat(x.a_title, " (", x.a_name, ") against ", x.b_title, " (", x.b_name,
             "): ", CountOf(x.tasks, "task"), " of ",
             CountOf(static_cast<std::int64_t>(x.ranks.size()), "rank"), ", the same graph");
  text = Paragraph("Comparison  ", 12, text);
  TextTable table({"", x.a_title, x.b_title, "error"});
  table.AddRow({StrCat("iteration, ", time.unit()), time(x.iteration.a_s), time(x.iteration.b_s),
                SignedPercent(x.iteration.Error())});
  return text + "\n" + table.ToString();
}

std::string BreakdownText(const TraceComparison& x) {
  const TimeCells time(x.iteration);
  TextTable table({time.unit(), x.a_title, x.b_title, "difference", "of iteration"});
  const auto add = [&](const std::string& name, const TimePair& pair) {
    table.AddRow(
        {name, time(pair.a_s), time(pair.b_s), time.Difference(pair), time.ShareOfIteration(pair)});
  };
  for (std::size_t i = 0; i < x.mean_breakdown.size(); ++i) {
    const TimePair& pair = x.mean_breakdown[i];
    if (pair.a_s == 0 && pair.b_s == 0) continue;
    add(Label(static_cast<TimeClass>(i)), pair);
  }
  add("iteration", x.iteration);
  return "\nWhere the time goes: mean of all ranks, adds up to the iteration on both sides\n" +
         table.ToString();
}

Picoseconds Sum(const Breakdown& breakdown, std::initializer_list<TimeClass> classes) {
  Picoseconds sum = 0;
  for (const TimeClass time_class : classes) sum += breakdown[time_class];
  return sum;
}

std::string RanksText(const TraceComparison& x, std::size_t most) {
  if (x.ranks.size() < 2) return "";
  const TimeCells time(x.iteration);
  const auto seconds = [](Picoseconds ps) {
    return static_cast<double>(ps) / kPicosecondsPerSecond;
  };
  // Both sides in one cell, or the table would be too wide.
  TextTable table({"rank", "computes", "communicates", "copies", "bubble"});
  const std::size_t shown = std::min(most, x.ranks.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const RankComparison& rank = x.ranks[i];
    const auto both = [&](std::initializer_list<TimeClass> classes) {
      return StrCat(time(seconds(Sum(rank.a, classes))), " | ",
                    time(seconds(Sum(rank.b, classes))));
    };
    table.AddRow({std::to_string(rank.global_rank),
                  both({TimeClass::kCompute, TimeClass::kRecompute, TimeClass::kOptimizer}),
                  both({TimeClass::kTensorParallel, TimeClass::kContextParallel,
                        TimeClass::kPipelineParallel, TimeClass::kDataParallel}),
                  both({TimeClass::kCopies}), both({TimeClass::kBubble})});
  }
  return StrCat(
      "\nEach rank, ", time.unit(), ": ", x.a_title, " | ", x.b_title,
      ", exposed; a row adds up to the iteration\n", table.ToString(),
      shown == x.ranks.size() ? "" : StrCat("  ... ", x.ranks.size() - shown, " more: --json\n"));
}

std::string EvidenceCell(const GroupComparison& group, Evidence evidence) {
  const std::int64_t tasks = group.evidence[static_cast<std::size_t>(evidence)];
  return tasks == 0 ? "" : Count(tasks);
}

std::string GroupsText(const TraceComparison& x, const std::string& title, const std::string& what,
                       const std::vector<GroupComparison>& groups, std::size_t most) {
  const TimeCells time(x.iteration);
  TextTable table({what, "tasks", x.a_title, x.b_title, "error", "median task", "of iteration",
                   Name(Evidence::kExtrapolated), Name(Evidence::kModelled)});
  const std::size_t shown = std::min(most, groups.size());
  const double ranks = static_cast<double>(std::max<std::size_t>(1, x.ranks.size()));
  for (std::size_t i = 0; i < shown; ++i) {
    const GroupComparison& group = groups[i];
    const TimePair mean{group.busy.a_s / ranks, group.busy.b_s / ranks};
    table.AddRow({group.name, Count(group.tasks), time(mean.a_s), time(mean.b_s),
                  SignedPercent(mean.Error()), SignedPercent(group.median_task_error),
                  time.ShareOfIteration(mean), EvidenceCell(group, Evidence::kExtrapolated),
                  EvidenceCell(group, Evidence::kModelled)});
  }
  return StrCat("\n", title, "\n", table.ToString(),
                shown == groups.size()
                    ? ""
                    : StrCat("  ... ", groups.size() - shown, " with less difference: --json\n"));
}

std::string MemoryText(const TraceComparison& x) {
  if (x.memory.empty()) return "";
  std::int64_t largest = 0;
  for (const MemoryComparison& memory : x.memory) {
    largest = std::max({largest, memory.a_bytes, memory.b_bytes});
  }
  const TableUnit unit = BytesUnit(largest);
  const auto cell = [&unit](std::int64_t bytes) {
    return Fixed(static_cast<double>(bytes) / unit.size, 3);
  };
  TextTable table({unit.name, "rank", x.a_title, x.b_title, "error"});
  for (const MemoryComparison& memory : x.memory) {
    const TimePair pair{static_cast<double>(memory.a_bytes), static_cast<double>(memory.b_bytes)};
    table.AddRow({Name(memory.pool), std::to_string(memory.global_rank), cell(memory.a_bytes),
                  cell(memory.b_bytes), SignedPercent(pair.Error())});
  }
  return "\nMost live bytes of each pool, of the rank where they differ most\n" + table.ToString();
}

std::string LargestText(const TraceComparison& x) {
  if (x.largest.empty()) return "";
  const TableUnit unit = SecondsUnit(std::max(x.largest[0].time.a_s, x.largest[0].time.b_s));
  const auto cell = [&unit](double seconds) { return Fixed(seconds / unit.size, 3); };
  TextTable table({"task", "id", StrCat(x.a_title, " ", unit.name),
                   StrCat(x.b_title, " ", unit.name), "error"});
  for (const TaskComparison& task : x.largest) {
    table.AddRow({task.name, std::to_string(task.task), cell(task.time.a_s), cell(task.time.b_s),
                  SignedPercent(task.time.Error())});
  }
  return "\nTasks whose durations differ most\n" + table.ToString();
}

}  // namespace

std::string ComparisonTables(const TraceComparison& x, const ComparisonTextOptions& options) {
  const std::string unit = TimeCells(x.iteration).unit();
  const std::string busy = ", " + unit + ", mean of all ranks";
  constexpr std::size_t kAll = 1000;
  return Headline(x) + BreakdownText(x) + RanksText(x, options.ranks) +
         GroupsText(x, "Busy time by kind of task" + busy, "kind", x.kinds, kAll) +
         GroupsText(x, "Busy time by lane" + busy, "lane", x.lanes, kAll) +
         GroupsText(x, "Busy time by operator, largest difference first" + busy, "operator",
                    x.operators, options.operators) +
         MemoryText(x) + LargestText(x);
}

std::string VerdictText(const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const Verdict& verdict : verdicts) {
    text += StrCat(verdict.ok ? "within" : "OUT OF", " tolerance: ", verdict.what, " ",
                   SignedPercent(verdict.error), " (", Percent(verdict.tolerance), ")\n");
  }
  return text.empty() ? "" : "\n" + text;
}

std::string ComparisonText(const TraceComparison& x, const ComparisonTextOptions& options) {
  return ComparisonTables(x, options) + VerdictText(x.verdicts);
}

}  // namespace twinstep
