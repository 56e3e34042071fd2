#include "sim/search/rank_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sim/format.h"
#include "sim/plan/plan_names.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::size_t kLabelWidth = 12;

// Every digit.
std::string Exact(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}
std::string Exact(const std::optional<double>& value) { return value ? Exact(*value) : ""; }
std::string Exact(const std::optional<std::int64_t>& value) { return value ? StrCat(*value) : ""; }

std::string Gibibytes(const std::optional<std::int64_t>& bytes) {
  if (!bytes) return "";
  return *bytes == 0 ? "-" : Fixed(static_cast<double>(*bytes) / (1 << 30), 2);
}

std::string GapText(const RankPoint& point) {
  if (point.ranking.empty()) return "no plan is feasible";
  std::string text = point.certified_gap <= 0
                         ? "the first is proven the best"
                         : StrCat("the first is at most ", Fixed(100 * point.certified_gap, 3),
                                  " % from the best of all");
  if (point.time_was_over) text += ", certified when the time was over";
  return text;
}

// Of text, where tables may be `width` wide; 0 = any width.
std::size_t LineWidth(std::size_t width) {
  return width == 0 ? kReportWidth : std::min(width, kReportWidth);
}

// Of a column.
std::string ShortLabel(TimeClass of) {
  if (of == TimeClass::kRecompute) return "recomp.";
  if (of == TimeClass::kOptimizer) return "optim.";
  const std::string label = Label(of);
  return label.substr(0, label.find(" exposed"));
}

std::string RankingText(const RankPoint& point, std::size_t width) {
  double longest_s = 0;
  bool several_sequences = false;  // In a micro-batch.
  bool several_batches = false;
  bool all_chunks = true;
  for (const RankRow& row : point.ranking) {
    longest_s = std::max(longest_s, *row.iteration_s);
    several_sequences |= row.plan.b > 1;
    several_batches |= row.plan.global_batch != point.ranking.front().plan.global_batch;
    all_chunks &= row.plan.chunks.enabled;
  }
  const TableUnit unit = SecondsUnit(longest_s);
  const auto time = [&](double seconds) { return Fixed(seconds / unit.size, 3); };
  TextTable table({"",
                   "t",
                   "c",
                   "p",
                   "d",
                   "v",
                   "l",
                   "m",
                   "b",
                   "B",
                   "persist",
                   "buffers",
                   "swap",
                   "checkpoint",
                   "recompute",
                   "offload",
                   StrCat("iteration ", unit.name),
                   "tokens/s/GPU",
                   "MFU %",
                   "GPU GiB",
                   "host GiB"});
  for (std::size_t i = 0; i < point.ranking.size(); ++i) {
    const RankRow& row = point.ranking[i];
    const ResolvedPlan& x = row.plan;
    const bool chunks = x.chunks.enabled;
    const auto of_pipeline = [&](std::int64_t value) {
      return all_chunks ? std::string() : StrCat(value);
    };
    const auto of_chunks = [&](std::int64_t value) {
      return chunks ? StrCat(value) : std::string();
    };
    table.AddRow({StrCat(i + 1),
                  of_pipeline(x.t),
                  of_pipeline(x.c),
                  of_pipeline(x.p),
                  StrCat(x.d),
                  of_pipeline(x.v),
                  of_pipeline(x.l),
                  StrCat(x.m),
                  several_sequences ? StrCat(x.b) : "",
                  several_batches ? Count(x.global_batch) : "",
                  of_chunks(x.chunks.persistent),
                  of_chunks(x.chunks.buffers),
                  of_chunks(CountBlocks(x, BLOCK_SWAP)),
                  of_chunks(CountBlocks(x, BLOCK_CHECKPOINT)),
                  chunks ? "" : WordFor(x.recompute),
                  chunks                 ? ""
                  : x.offload_ratio == 0 ? "-"
                                         : Fixed(x.offload_ratio, 3),
                  time(*row.iteration_s),
                  Grouped(row.TokensPerSecond() / static_cast<double>(x.gpus), 1),
                  Fixed(100 * *row.mfu, 1),
                  Gibibytes(row.peak_gpu_bytes),
                  Gibibytes(row.peak_host_bytes)});
  }
  std::string text = table.ToString(2, width);

  text += "\n" + Paragraph("", 2,
                           StrCat("Where their time goes, in ", unit.name,
                                  " of the mean rank; from the second on what differs from the "
                                  "first"),
                           LineWidth(width));
  std::vector<std::string> titles = {""};
  for (int i = 0; i < kTimeClassCount; ++i) {
    titles.push_back(ShortLabel(static_cast<TimeClass>(i)));
  }
  titles.insert(titles.end(), {"closed form", "bound"});
  TextTable shares(titles);
  for (std::size_t i = 0; i < point.ranking.size(); ++i) {
    const RankRow& row = point.ranking[i];
    std::vector<std::string> cells = {StrCat(i + 1)};
    for (std::size_t j = 0; j < row.breakdown->size(); ++j) {
      const double value = (*row.breakdown)[j];
      // Batches may differ: a share counts as that of the first plan's batch.
      const double scale = static_cast<double>(point.ranking.front().plan.global_batch) /
                           static_cast<double>(row.plan.global_batch);
      const double difference = value * scale - (*point.ranking.front().breakdown)[j];
      const double shown = i == 0 ? value : difference;
      const bool is_nothing = std::abs(shown / unit.size) < 0.0005;
      cells.push_back(is_nothing ? "." : StrCat(i > 0 && shown > 0 ? "+" : "", time(shown)));
    }
    cells.push_back(time(row.expected_s));
    cells.push_back(time(row.bound_s));
    shares.AddRow(std::move(cells));
  }
  return text + shares.ToString(2, width);
}

std::string LosersText(const RankPoint& point, std::size_t width) {
  std::string text;
  const auto line = [&](const std::string& what, std::int64_t plans, const std::string& why) {
    text += Paragraph("  ", 4,
                      StrCat(Count(plans), plans == 1 ? " plan, " : " plans, ", what, ": ", why),
                      LineWidth(width));
  };
  const std::int64_t others = point.replays - static_cast<std::int64_t>(point.ranking.size());
  if (point.bounded.plans > 0) {
    const double best = point.ranking.empty()
                            ? 0
                            : *point.ranking.front().iteration_s /
                                  static_cast<double>(point.ranking.front().plan.global_batch);
    line("bounded", point.bounded.plans,
         StrCat("cannot be faster: computation and what it must wait for take at least ",
                Fixed(100 * point.bounded.least_cost_s / best, 2), " % of the first one's time"));
  }
  if (others > 0) line("slower", others, "replayed, and slower than these or too large");
  if (point.left_out.plans > 0) line("left out", point.left_out.plans, "the time was over");
  for (const auto* rules : {&point.infeasible, &point.invalid}) {
    for (const auto& [rule, excluded] : *rules) {
      line(rule, excluded.plans,
           excluded.plans == 1 ? excluded.example : "such as: " + excluded.example);
    }
  }
  return text.empty() ? "" : "\n  Why the others lost\n" + text;
}

std::string ValueText(const Maximum& most, std::int64_t value) {
  if (most.of == Maximize::kBatch) return CountOf(value, "sequence") + " a GPU";
  return CountOf(value, "layer");
}

std::string LimitText(const Maximum& most) {
  if (most.limit.message.empty()) return "more were not tried";
  return StrCat(ValueText(most, most.value + 1), " do not fit: ", most.limit.message);
}

std::string BillionParameters(const Maximum& most) {
  return Fixed(1e-9 * static_cast<double>(most.parameters), 2);
}

// What the best plan of the largest takes of each pool.
std::string PoolsText(const RankRow& row) {
  return StrCat(Bytes(static_cast<double>(*row.peak_gpu_bytes)), " a GPU, ",
                Bytes(static_cast<double>(*row.peak_host_bytes)), " of host memory a node, ",
                Bytes(static_cast<double>(*row.peak_pinned_bytes)), " of it pinned");
}

std::string MaximumText(const RankPoint& point, std::size_t width) {
  const Maximum& most = *point.maximum;
  const bool layers = most.of == Maximize::kLayers;
  std::string text = StrCat("\n", CountOf(point.gpus, "GPU"), ":");
  if (most.value == 0) {
    return Paragraph(text, 4, StrCat("not even ", ValueText(most, 1), ": ", most.limit.message),
                     LineWidth(width));
  }
  text += StrCat(" at most ", ValueText(most, most.value));
  if (layers) text += StrCat(", ", BillionParameters(most), " B parameters");
  text += "\n" + Paragraph("  limit", kLabelWidth, LimitText(most), LineWidth(width));
  if (layers) {
    text += Paragraph(
        "  bound", kLabelWidth,
        StrCat("all memory together has room for the states of ", CountOf(most.bound, "layer")),
        LineWidth(width));
  }
  if (!point.ranking.empty()) {
    text +=
        Paragraph("  best plan", kLabelWidth, PoolsText(point.ranking.front()), LineWidth(width));
  }
  return text;
}

// Of a row of MaximaText: sizes or chunks, speed and memory.
std::vector<std::string> PlanCells(const RankRow& row) {
  const ResolvedPlan& x = row.plan;
  std::vector<std::string> cells;
  if (x.chunks.enabled) {
    cells = {"",
             "",
             "",
             "",
             "",
             StrCat(x.chunks.persistent),
             StrCat(x.chunks.buffers),
             StrCat(CountBlocks(x, BLOCK_SWAP)),
             StrCat(CountBlocks(x, BLOCK_CHECKPOINT))};
  } else {
    cells = {StrCat(x.t), StrCat(x.c), StrCat(x.p), StrCat(x.v), WordFor(x.recompute),
             "",          "",          "",          ""};
  }
  cells.insert(cells.end(), {Count(std::llround(row.TokensPerSecond())),
                             Gibibytes(row.peak_gpu_bytes), Gibibytes(row.peak_host_bytes)});
  return cells;
}

// Of --maximize, by number of GPUs.
std::string MaximaText(const Ranking& report, std::size_t width) {
  std::string text =
      "\nThe most that fits, its best plan, and the GiB of one more that do not fit\n";
  TextTable table({"GPUs", "layers", "billion", "sequences", "t", "c", "p", "v", "recompute",
                   "persist", "buffers", "swap", "checkpoint", "tokens/s", "GPU GiB", "host GiB",
                   "limit", "short"});
  for (const RankPoint& point : report.points) {
    const Maximum& most = *point.maximum;
    const bool layers = most.of == Maximize::kLayers;
    std::vector<std::string> cells = {Count(point.gpus), layers ? Count(most.value) : "",
                                      layers ? BillionParameters(most) : "",
                                      layers ? "" : Count(most.value)};
    const std::vector<std::string> plan =
        point.ranking.empty() ? std::vector<std::string>(12) : PlanCells(point.ranking.front());
    cells.insert(cells.end(), plan.begin(), plan.end());
    cells.push_back(most.limit.pool.empty() ? most.limit.rule : most.limit.pool);
    cells.push_back(most.limit.excess_bytes > 0 ? Gibibytes(most.limit.excess_bytes) : "");
    table.AddRow(std::move(cells));
  }
  return text + table.ToString(2, width);
}

std::string PointText(const RankPoint& point, std::size_t width) {
  if (point.maximum && point.maximum->value == 0) return MaximumText(point, width);
  std::string text = point.maximum ? MaximumText(point, width) : "";
  text +=
      "\n" + Paragraph("", 0,
                       StrCat(CountOf(point.gpus, "GPU"), ": ", CountOf(point.plans, "valid plan"),
                              ", ", Count(point.replays), " replayed; ", GapText(point)),
                       LineWidth(width));
  if (!point.ranking.empty()) text += RankingText(point, width);
  return text + LosersText(point, width);
}

std::string SweepText(const Ranking& report, std::size_t width) {
  std::string text =
      "\nBest plan by number of GPUs, and plain data-parallel scaling of the first\n";
  TextTable table({"GPUs", "t", "c", "p", "d", "v", "B", "recompute", "offload", "tokens/s",
                   "per GPU", "MFU %", "DP GPUs", "DP tokens/s", "gain %"});
  double largest_gap = 0;
  for (const RankPoint& point : report.points) {
    if (point.ranking.empty()) {
      table.AddRow({Count(point.gpus), "-", "-", "-", "-", "-", "-", "none fits", "", "", "", "",
                    "", "", ""});
      continue;
    }
    const RankRow& row = point.ranking.front();
    const ResolvedPlan& x = row.plan;
    largest_gap = std::max(largest_gap, point.certified_gap);
    const bool has_base = point.data_parallel_tokens_per_s > 0;
    table.AddRow(
        {Count(point.gpus), StrCat(x.t), StrCat(x.c), StrCat(x.p), StrCat(x.d), StrCat(x.v),
         Count(x.global_batch), WordFor(x.recompute),
         x.offload_ratio == 0 ? "-" : Fixed(x.offload_ratio, 3),
         Count(std::llround(row.TokensPerSecond())),
         Grouped(row.TokensPerSecond() / static_cast<double>(x.gpus), 1), Fixed(100 * *row.mfu, 1),
         has_base ? Count(point.data_parallel_gpus) : "-",
         has_base ? Count(std::llround(point.data_parallel_tokens_per_s)) : "-",
         has_base ? Fixed(100 * (row.TokensPerSecond() / point.data_parallel_tokens_per_s - 1), 1)
                  : "-"});
  }
  return text + table.ToString(2, width) +
         (largest_gap <= 0 ? "  Each is proven the best.\n"
                           : StrCat("  Each is at most ", Fixed(100 * largest_gap, 3),
                                    " % from the best of all.\n"));
}

std::string FateText(const RankRow& row) {
  switch (row.fate) {
    case Fate::kReplayed:
      return StrCat("replayed, ", Seconds(*row.iteration_s));
    case Fate::kSlower:
      return StrCat("replayed, ", Seconds(*row.iteration_s), ": slower");
    case Fate::kBounded:
      return StrCat("at least ", Seconds(row.bound_s), ": not better");
    case Fate::kInfeasible:
      return StrCat(row.rule, ": ", row.message);
    case Fate::kLeftOut:
      return "left out: the time was over";
  }
  return "";
}

// Of a plan in chunks.
std::string ChunkCells(const ResolvedPlan& plan) {
  if (!plan.chunks.enabled) return ",,,";
  return StrCat(plan.chunks.persistent, ",", plan.chunks.buffers, ",",
                CountBlocks(plan, BLOCK_SWAP), ",", CountBlocks(plan, BLOCK_CHECKPOINT));
}

std::string ExplainText(const RankPoint& point) {
  std::string text = StrCat("\nEvery valid plan of ", CountOf(point.gpus, "GPU"),
                            ", in the order of the closed form\n");
  for (const RankRow& row : point.all) {
    text +=
        StrCat("  ", ShortName(row.plan), ", B ", row.plan.global_batch, ": ", FateText(row), "\n");
  }
  return text;
}

const char* Name(Fate fate) {
  switch (fate) {
    case Fate::kReplayed:
      return "replayed";
    case Fate::kSlower:
      return "slower";
    case Fate::kInfeasible:
      return "infeasible";
    case Fate::kBounded:
      return "bounded";
    case Fate::kLeftOut:
      return "left_out";
  }
  return "";
}

// Where nothing fits.
std::string HopeText(const Ranking& report) {
  if (report.points.front().maximum) return "";  // It says so itself.
  const std::string_view space = report.space;
  const bool with_chunks = space.find("--space chunks") != std::string_view::npos ||
                           space.find("--space all") != std::string_view::npos;
  return with_chunks ? "No plan fits: `--maximize layers` says which model would."
                     : "No plan fits. --space all also searches plans that keep model states in "
                       "host memory, and --maximize layers says which model fits.";
}

// Each once, with the plans that have it.
std::string RowWarningsText(const Ranking& report, std::size_t width) {
  std::vector<std::string> warnings;  // In order of appearance.
  std::map<std::string, std::string> plans;
  for (const RankPoint& point : report.points) {
    for (std::size_t i = 0; i < point.ranking.size(); ++i) {
      for (const std::string& warning : point.ranking[i].warnings) {
        if (!plans.contains(warning)) warnings.push_back(warning);
        std::string& of = plans[warning];
        of += StrCat(of.empty() ? "" : ", ",
                     report.points.size() > 1 ? StrCat(point.gpus, " GPUs: ") : "", i + 1);
      }
    }
  }
  std::string text = warnings.empty() ? "" : "\n";
  for (const std::string& warning : warnings) {
    text += Paragraph("Warning", kLabelWidth, StrCat(warning, " (plans ", plans[warning], ")"),
                      LineWidth(width));
  }
  return text;
}

}  // namespace

std::string ToText(const Ranking& report, bool explain, std::size_t width) {
  std::string text;
  text += Paragraph("model", kLabelWidth, report.model, LineWidth(width));
  text += Paragraph("cluster", kLabelWidth, report.cluster, LineWidth(width));
  text += Paragraph("memory", kLabelWidth, report.memory, LineWidth(width));
  text += Paragraph("search", kLabelWidth, report.space, LineWidth(width));
  if (!report.kept.empty()) {
    text += Paragraph("kept", kLabelWidth, report.kept + "; lists search others (--help)",
                      LineWidth(width));
  }
  if (report.shards > 1) {
    text += Paragraph("part", kLabelWidth, StrCat(report.shard, " of ", report.shards));
  }
  const bool is_sweep = report.points.size() > 1;
  if (is_sweep) {
    text += report.points.front().maximum ? MaximaText(report, width) : SweepText(report, width);
  } else {
    for (const RankPoint& point : report.points) text += PointText(point, width);
  }
  if (!report.AnyFeasible() && !report.points.empty()) {
    const std::string hope = HopeText(report);
    if (!hope.empty()) text += "\n" + Paragraph("", 0, hope, LineWidth(width));
  }
  text += RowWarningsText(report, width);
  if (explain) {
    for (const RankPoint& point : report.points) {
      if (is_sweep) text += PointText(point, width);
      text += ExplainText(point);
    }
  }
  return text;
}

std::string ToCsv(const Ranking& report) {
  std::string text =
      "gpus,t,c,p,d,v,l,micro_batches,micro_batch,global_batch,sequence_length,schedule,recompute,"
      "zero_stage,tp_overlap,dp_overlap,rank_order,offload_ratio,persistent_chunks,chunk_buffers,"
      "swapped_blocks,checkpointed_blocks,fate,rule,iteration_s,tokens_per_"
      "s,"
      "mfu,peak_gpu_memory_bytes,peak_host_memory_per_node_bytes,closed_form_s,bound_s\n";
  for (const RankPoint& point : report.points) {
    for (const RankRow& row : point.all) {
      const ResolvedPlan& x = row.plan;
      text += StrCat(x.gpus, ",", x.t, ",", x.c, ",", x.p, ",", x.d, ",", x.v, ",", x.l, ",", x.m,
                     ",", x.b, ",", x.global_batch, ",", x.sequence_length, ",");
      text += StrCat(WordFor(x.schedule), ",", WordFor(x.recompute), ",", x.zero_stage, ",",
                     WordFor(x.tp_overlap), ",", x.dp_overlap ? "on" : "off", ",", x.rank_order,
                     ",", Exact(x.offload_ratio), ",", ChunkCells(x), ",", Name(row.fate), ",",
                     row.rule, ",");
      text += StrCat(Exact(row.iteration_s), ",",
                     row.iteration_s ? Exact(row.TokensPerSecond()) : "", ",", Exact(row.mfu), ",",
                     Exact(row.peak_gpu_bytes), ",", Exact(row.peak_host_bytes), ",",
                     Exact(row.expected_s), ",", Exact(row.bound_s), "\n");
    }
  }
  return text;
}

SvgChart ScalingChart(const Ranking& report) {
  SvgChart chart{.title = StrCat("Best plans, sequence ", report.sequence_length),
                 .x_label = "GPUs",
                 .y_label = "tokens/s",
                 .series = {}};
  SvgChart::Series best{.name = "best plan", .points = {}};
  SvgChart::Series scaled{.name = "data-parallel scaling of the first", .points = {}};
  scaled.dashed = true;
  for (const RankPoint& point : report.points) {
    const auto gpus = static_cast<double>(point.gpus);
    if (!point.ranking.empty()) {
      best.points.push_back({gpus, point.ranking.front().TokensPerSecond()});
    }
    if (point.data_parallel_tokens_per_s > 0) {
      scaled.points.push_back({gpus, point.data_parallel_tokens_per_s});
    }
  }
  chart.series.push_back(std::move(best));
  if (!scaled.points.empty()) chart.series.push_back(std::move(scaled));
  return chart;
}

}  // namespace twinstep
