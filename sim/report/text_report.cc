#include "sim/report/text_report.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sim/format.h"
#include "sim/plan/plan_names.h"
#include "sim/report/chunk_text.h"
#include "sim/report/echo_text.h"
#include "sim/report/remedies.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::size_t kLabelWidth = 24;
constexpr std::size_t kMaxOperators = 12;
constexpr double kLeastCriticalShare = 0.005;  // Of the iteration, to have a line of its own.

std::string Line(std::string_view label, const std::string& text) {
  return Paragraph("  " + std::string(label), kLabelWidth, text);
}

// A value in a table: a dash says that there is none.
std::string Cell(double value, const TableUnit& unit, int decimals) {
  return value == 0 ? "-" : Fixed(value / unit.size, decimals);
}

// Seconds of the iteration's size.
class TimeCells {
 public:
  explicit TimeCells(const SimulationResults& results) : unit_(SecondsUnit(results.iteration_s)) {}
  std::string operator()(double seconds) const { return Cell(seconds, unit_, 3); }
  // "busy" -> "busy ms".
  std::string Title(const std::string& what) const { return what + " " + unit_.name; }
  const char* unit() const { return unit_.name; }

 private:
  TableUnit unit_;
};

double ToSeconds(Picoseconds ps) { return static_cast<double>(ps) / kPicosecondsPerSecond; }

const RankReport& FullestRank(const SimulationResults& results) {
  return *std::max_element(results.ranks.begin(), results.ranks.end(),
                           [](const RankReport& a, const RankReport& b) {
                             return a.pools[0].arena_bytes < b.pools[0].arena_bytes;
                           });
}

std::string OffloadText(const Report& report) {
  std::string text = Fixed(report.plan.offload_ratio, 3);
  if (report.offload_solved) {
    text += ", solved for a budget of " +
            Bytes(static_cast<double>(report.gpu_memory_budget_bytes)) +
            " (weights, gradients, optimizer, activation blocks)";
  }
  return text;
}

std::string ErrorBarText(const Report& report) {
  if (report.error_bars.empty()) {
    return Line("error bar",
                report.profile.empty()
                    ? "unknown: no suite has runs on it"
                    : "unknown: `twinstep validate` finds it on the machine of the profile");
  }
  std::string text;
  for (const ErrorBar& bar : report.error_bars) {
    std::string line = "+- " + Percent(bar.median) + " (worst " + Percent(bar.worst) + ") on " +
                       CountOf(bar.rows, "run") + " of " + bar.suite;
    for (std::size_t i = 0; i < bar.beyond.size(); ++i) {
      line += (i == 0 ? "; extrapolated: " : ", ") + bar.beyond[i];
    }
    text += Line("error bar", line);
  }
  return text;
}

std::string HeadlineText(const Report& report, const SimulationResults& results) {
  std::string text = "\nResult\n";
  // Tables follow; what is wrong with the plan stands behind them.
  if (report.infeasible) {
    text += Line("infeasible", report.infeasible->rule + ": " +
                                   Bytes(static_cast<double>(report.infeasible->excess_bytes)) +
                                   " too much; the end says of what, and what may help");
  }
  text += Line("iteration time", Seconds(results.iteration_s));
  text += ErrorBarText(report);
  text += Line("tokens/s", Count(std::llround(results.tokens_per_s)));
  text += Line("tokens/s/GPU", Grouped(results.tokens_per_s_per_gpu, 1));
  text += Line("MFU",
               StrCat(Percent(results.mfu), " of ", results.peak_flops_per_s / 1e12, " TFLOP/s"));
  text += Line("peak GPU memory", Bytes(static_cast<double>(results.peak_gpu_bytes)) + " of " +
                                      Bytes(static_cast<double>(report.gpu_memory_capacity_bytes)) +
                                      ", on rank " +
                                      std::to_string(FullestRank(results).info.global_rank));
  if (results.host.peak_bytes > 0) {
    text +=
        Line("peak host memory", Bytes(static_cast<double>(results.peak_host_bytes)) + " a rank; " +
                                     Bytes(static_cast<double>(results.host.peak_bytes)) + " of " +
                                     Bytes(static_cast<double>(report.host_memory_budget_bytes)) +
                                     " a node (node " + std::to_string(results.host.node) + ", " +
                                     CountOf(results.host.ranks, "rank") + ")");
  }
  text += Line("offload ratio", OffloadText(report));
  std::string tasks = Count(results.tasks) + " of " +
                      CountOf(static_cast<std::int64_t>(results.ranks.size()), "rank");
  if (static_cast<std::int64_t>(results.ranks.size()) < report.plan.gpus) {
    tasks += ", which stand for all " + Count(report.plan.gpus);
  }
  text += Line("tasks simulated", tasks + "; engine " + report.engine);
  if (results.extrapolated_tasks > 0) {
    text += Line("extrapolated", Count(results.extrapolated_tasks) +
                                     " tasks lie outside of what the profile measured (* below)");
  }
  return text;
}

std::string BreakdownText(const SimulationResults& results) {
  const TimeCells time(results);
  TextTable table({"", time.unit(), "share", ""});
  table.AlignLeft(3);
  for (std::size_t i = 0; i < results.breakdown.size(); ++i) {
    const double seconds = results.breakdown[i];
    const double share = results.iteration_s == 0 ? 0 : seconds / results.iteration_s;
    if (seconds == 0) continue;
    table.AddRow({Label(static_cast<TimeClass>(i)), time(seconds), Percent(share),
                  std::string(static_cast<std::size_t>(std::lround(share * 50)), '#')});
  }
  table.AddRow({"iteration", time(results.iteration_s), "", ""});
  return "\nWhere the time goes: mean of all ranks, adds up to the iteration\n" + table.ToString();
}

std::string RankRangeNote(std::size_t shown, std::size_t all) {
  return shown == all ? "" : "  ... " + std::to_string(all - shown) + " more: --json\n";
}

std::string RankTimesText(const SimulationResults& results, std::size_t max_ranks) {
  TextTable table({"rank", "pp", "dp", "cp", "tp", "ranks", "comp.", "recomp.", "optim.", "TP",
                   "CP", "PP", "DP", "copies", "bubble"});
  const TimeCells time(results);
  const std::size_t shown = std::min(max_ranks, results.ranks.size());
  for (std::size_t r = 0; r < shown; ++r) {
    const RankReport& rank = results.ranks[r];
    std::vector<std::string> row = {
        std::to_string(rank.info.global_rank), std::to_string(rank.info.pp),
        std::to_string(rank.info.dp),          std::to_string(rank.info.cp),
        std::to_string(rank.info.tp),          std::to_string(rank.info.class_size)};
    for (const Picoseconds ps : rank.breakdown.time_ps) row.push_back(time(ToSeconds(ps)));
    table.AddRow(std::move(row));
  }
  return "\nTime of each rank, " + std::string(time.unit()) +
         " (ranks: how many equal ones it stands for)\n" + table.ToString() +
         RankRangeNote(shown, results.ranks.size());
}

// Column title of a role in the memory tables.
const char* ShortName(Role role) {
  switch (role) {
    case Role::kInput:
      return "input";
    case Role::kParameter:
      return "param.";
    case Role::kGradient:
      return "grad.";
    case Role::kOptimizerState:
      return "optim.";
    case Role::kActivation:
      return "activ.";
    case Role::kOffloadSlot:
      return "offload";
    case Role::kTransient:
      return "temp.";
    case Role::kCommunication:
      return "comm.";
    case Role::kWorkspace:
      return "work";
  }
  return "";
}

std::string MemoryText(const SimulationResults& results, Pool pool, std::size_t max_ranks) {
  std::vector<std::string> titles = {"rank"};
  std::vector<std::size_t> roles;
  for (std::size_t role = 0; role < kRoleCount; ++role) {
    const bool used =
        std::any_of(results.ranks.begin(), results.ranks.end(), [&](const RankReport& rank) {
          return rank.pools[static_cast<std::size_t>(pool)].live_at_peak[role] > 0;
        });
    if (!used) continue;
    roles.push_back(role);
    titles.push_back(ShortName(static_cast<Role>(role)));
  }
  const TimeCells time(results);
  for (const std::string& title : {std::string("unused"), std::string("peak"), time.Title("at")}) {
    titles.push_back(title);
  }
  std::int64_t largest = 0;
  for (const RankReport& rank : results.ranks) {
    largest = std::max(largest, rank.pools[static_cast<std::size_t>(pool)].arena_bytes);
  }
  const TableUnit unit = BytesUnit(largest);
  const int decimals = unit.size >= 0x1p30 ? 2 : 1;
  const auto bytes = [&unit, decimals](std::int64_t x) {
    return Cell(static_cast<double>(x), unit, decimals);
  };
  TextTable table(titles);
  const std::size_t shown = std::min(max_ranks, results.ranks.size());
  for (std::size_t r = 0; r < shown; ++r) {
    const PoolReport& memory = results.ranks[r].pools[static_cast<std::size_t>(pool)];
    std::vector<std::string> row = {std::to_string(results.ranks[r].info.global_rank)};
    for (const std::size_t role : roles) row.push_back(bytes(memory.live_at_peak[role]));
    row.push_back(bytes(memory.arena_bytes - memory.peak_live_bytes));
    row.push_back(bytes(memory.arena_bytes));
    row.push_back(time(ToSeconds(memory.peak_at_ps)));
    table.AddRow(std::move(row));
  }
  const std::string title = pool == Pool::kGpu          ? "GPU memory"
                            : pool == Pool::kPinnedHost ? "Pinned host memory"
                                                        : "Host memory";
  return "\n" + title + " of each rank at its peak, " + unit.name + "\n" + table.ToString() +
         RankRangeNote(shown, results.ranks.size());
}

bool UsesPool(const SimulationResults& results, Pool pool) {
  return std::any_of(results.ranks.begin(), results.ranks.end(), [&](const RankReport& rank) {
    return rank.pools[static_cast<std::size_t>(pool)].arena_bytes > 0;
  });
}

std::string LanesText(const SimulationResults& results) {
  const TimeCells time(results);
  TextTable table({"lane", "tasks", "bytes", time.Title("busy"), "hidden", time.Title("not hidden"),
                   time.Title("waiting")});
  double ranks = 0;
  for (const RankReport& rank : results.ranks) ranks += rank.info.class_size;
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    if (static_cast<Lane>(lane) == Lane::kCompute) continue;
    double tasks = 0, bytes = 0, busy = 0, exposed = 0, waiting = 0;
    for (const RankReport& rank : results.ranks) {
      const double weight = rank.info.class_size / ranks;
      tasks += weight * static_cast<double>(rank.lanes[lane].tasks);
      bytes += weight * static_cast<double>(rank.lanes[lane].bytes);
      busy += weight * ToSeconds(rank.lanes[lane].busy_ps);
      exposed += weight * ToSeconds(rank.lanes[lane].exposed_ps);
      waiting += weight * ToSeconds(rank.lanes[lane].waiting_ps);
    }
    if (tasks == 0) continue;
    table.AddRow({Name(static_cast<Lane>(lane)), Count(std::llround(tasks)),
                  bytes == 0 ? "-" : Bytes(bytes), time(busy),
                  busy == 0 ? "-" : Percent(1 - exposed / busy), time(exposed), time(waiting)});
  }
  if (table.empty()) return "";
  return "\nCopies and communication of a rank, mean (hidden: behind its computation)\n"
         "  (not hidden: each lane for itself; where several move at once, the time above counts "
         "once)\n" +
         table.ToString();
}

std::string LinksText(const SimulationResults& results) {
  TextTable table({"link", "node", "index", "bandwidth", "bytes", "busy"});
  for (const LinkReport& link : results.links) {
    table.AddRow({Name(link.kind), std::to_string(link.node), std::to_string(link.index),
                  BytesPerSecond(link.bytes_per_s), Bytes(link.bytes),
                  Percent(link.busy_fraction)});
  }
  if (table.empty()) return "";
  return "\nBusiest link of each kind\n" + table.ToString();
}

std::string OperatorsText(const Report& report, const SimulationResults& results) {
  const TimeCells time(results);
  TextTable table(
      {"operator", "tasks", time.unit(), "share", "TFLOP/s", "of peak", "TB/s", "of peak"});
  double all = 0;
  std::vector<const OperatorReport*> operators;  // Those that compute: lanes tell of the others.
  for (const OperatorReport& x : results.operators) {
    if (x.on_host || x.memory_bytes == 0 || x.seconds == 0) continue;
    operators.push_back(&x);
    all += x.seconds;
  }
  const double peak_flops = report.cluster.gpu().bf16_flops_per_s();
  const double peak_bytes = report.cluster.gpu().memory_bytes_per_s();
  const std::size_t shown = std::min(kMaxOperators, operators.size());
  bool in_caches = false;  // Measured there, and faster than memory is.
  for (std::size_t i = 0; i < shown; ++i) {
    const OperatorReport& x = *operators[i];
    const double flops = x.flops / x.seconds;
    const double bytes = x.memory_bytes / x.seconds;
    in_caches = in_caches || (peak_bytes > 0 && bytes > 1.01 * peak_bytes);
    table.AddRow({std::string(Name(x.op)) + (x.extrapolated ? " *" : ""),
                  Count(std::llround(x.tasks)), time(x.seconds), Percent(x.seconds / all),
                  flops == 0 ? "-" : Fixed(flops / 1e12, 1),
                  flops == 0 || peak_flops == 0 ? "-" : Percent(flops / peak_flops),
                  bytes == 0 ? "-" : Fixed(bytes / 1e12, 2),
                  bytes == 0 || peak_bytes == 0 ? "-" : Percent(bytes / peak_bytes)});
  }
  std::string text = "\nComputation of a rank by operator, mean, longest first\n";
  if (in_caches) {
    text +=
        "  (beyond the memory's rate: in caches, a neighbour's kernel, or better than a copy)\n";
  }
  text += table.ToString();
  if (shown < operators.size()) {
    text += "  ... " + std::to_string(operators.size() - shown) + " shorter ones: --json\n";
  }
  return text;
}

// Of the host only bytes tell: its peak is not the GPU's.
std::string HostOperatorsText(const SimulationResults& results) {
  const TimeCells time(results);
  TextTable table({"operator", "tasks", time.unit(), "GB/s"});
  for (const OperatorReport& x : results.operators) {
    if (!x.on_host || x.seconds == 0) continue;
    table.AddRow({std::string(Name(x.op)) + (x.extrapolated ? " *" : ""),
                  Count(std::llround(x.tasks)), time(x.seconds),
                  x.memory_bytes == 0 ? "-" : Fixed(x.memory_bytes / x.seconds / 1e9, 1)});
  }
  if (table.empty()) return "";
  return "\nComputation of a rank on the host, mean, longest first\n" + table.ToString();
}

std::string CriticalPathText(const SimulationResults& results) {
  const TimeCells time(results);
  TextTable table({"lane", "phase", "on", "tasks", time.unit(), "share", time.Title("slowed")});
  for (const std::size_t column : {1u, 2u}) table.AlignLeft(column);
  double shown_s = 0;
  for (const CriticalReport& x : results.critical_path) {
    const double share = x.seconds / results.iteration_s;
    if (share < kLeastCriticalShare) break;
    shown_s += x.seconds;
    table.AddRow({Name(x.lane), Name(x.phase), x.resource, Count(x.tasks), time(x.seconds),
                  Percent(share), time(x.slowed_s)});
  }
  if (table.empty()) return "";
  const double rest_s = results.iteration_s - shown_s;
  table.AddRow({"all else", "", "", "",
                Cell(std::max(0.0, rest_s), SecondsUnit(results.iteration_s), 3),
                Percent(std::max(0.0, rest_s / results.iteration_s)), ""});
  return "\nCritical path: the " + Count(results.critical_tasks) +
         " tasks that make the iteration as long as it is\n"
         "  (on: what limits them, of a transfer its narrowest link; own rate: latency; slowed: by "
         "sharing)\n" +
         table.ToString();
}

std::string Deviation(double value, std::optional<double> replayed) {
  if (!replayed || *replayed == 0) return "-";
  const double deviation = value / *replayed - 1;
  return (deviation > 0 ? "+" : "") + Percent(deviation);
}

using Formatter = std::string (*)(double);

std::string TermsText(const std::vector<ClosedFormTerm>& terms, const ClosedFormTerm& total,
                      Formatter format) {
  TextTable table({"", "from", "closed form", "replay", "off by"});
  table.AlignLeft(1);
  const auto cell = [format](double value) { return value == 0 ? "-" : format(value); };
  const auto add = [&](const ClosedFormTerm& x) {
    table.AddRow({x.name, x.source, cell(x.value), x.replayed ? cell(*x.replayed) : "-",
                  Deviation(x.value, x.replayed)});
  };
  for (const ClosedFormTerm& term : terms) add(term);
  add(total);
  return table.ToString();
}

std::string ClosedFormText(const SimulationResults& results, const ClosedFormReport& form) {
  return "\nClosed form of " + form.paper + ", beside the replay\n" +
         TermsText(form.times,
                   {.name = "iteration",
                    .source = "",
                    .value = form.iteration_s,
                    .replayed = results.iteration_s},
                   Seconds) +
         "\n" +
         TermsText(form.memory,
                   {.name = "peak GPU memory",
                    .source = "",
                    .value = form.peak_gpu_bytes,
                    .replayed = static_cast<double>(results.peak_gpu_bytes)},
                   Bytes);
}

}  // namespace

std::string WarningsText(const std::vector<std::string>& warnings) {
  std::string text = warnings.empty() ? "" : "\n";
  for (const std::string& warning : warnings) text += Paragraph("Warning", 12, warning);
  return text;
}

std::string ToText(const Report& report, std::size_t max_ranks) {
  std::string text = EchoText(report);
  if (report.results) {
    const SimulationResults& results = *report.results;
    text += HeadlineText(report, results);
    if (report.closed_form) text += ClosedFormText(results, *report.closed_form);
    text += BreakdownText(results);
    text += RankTimesText(results, max_ranks);
    for (const Pool pool : {Pool::kGpu, Pool::kPinnedHost, Pool::kHost}) {
      if (UsesPool(results, pool)) text += MemoryText(results, pool, max_ranks);
    }
    text += ChunkText(report);
    text += LanesText(results);
    text += LinksText(results);
    text += CriticalPathText(results);
    text += OperatorsText(report, results);
    text += HostOperatorsText(results);
  }
  if (report.infeasible) {
    text += "\n" + Paragraph("Infeasible", 12,
                             "(" + report.infeasible->rule + ") " + report.infeasible->message);
    const std::string remedies = Remedies(report);
    if (!remedies.empty()) text += Paragraph("May help", 12, remedies);
  }
  return text + WarningsText(report.warnings);
}

}  // namespace twinstep
