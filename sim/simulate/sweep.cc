#include "sim/simulate/sweep.h"

#include <algorithm>
#include <tuple>

#include "sim/format.h"
#include "sim/report/echo_text.h"
#include "sim/report/json_report.h"
#include "sim/report/text_report.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"
#include "sim/textproto/set_field.h"

namespace twinstep {
namespace {

// What a change is seen by.
auto Figures(const Report& report) {
  const SimulationResults x = report.results.value_or(SimulationResults{});
  const std::string rule = report.infeasible ? report.infeasible->rule : "";
  return std::tuple(rule, x.iteration_s, x.peak_gpu_bytes, x.host.peak_bytes);
}

// All fields but one have the same values.
bool DiffersOnlyIn(std::size_t field, const SweepRow& a, const SweepRow& b) {
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    if (i != field && a.fields[i] != b.fields[i]) return false;
  }
  return true;
}

std::string Gibibytes(std::int64_t bytes) {
  return bytes == 0 ? "-" : Fixed(static_cast<double>(bytes) / (1 << 30), 2);
}

// Column of a field: the end of its path, or a letter where several must fit in a line.
std::string ColumnOf(const SweepRow& row, std::size_t field) {
  const std::string& path = row.fields[field].first;
  if (row.fields.size() > 1) return std::string(1, static_cast<char>('a' + field % 26));
  return path.substr(path.rfind('.') + 1);
}

// Of which the echo tells the whole plan: the first that has one, else the first.
const SweepRow& EchoedRow(const std::vector<SweepRow>& rows) {
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [](const SweepRow& x) { return x.report.plan_is_valid; });
  return row == rows.end() ? rows.front() : *row;
}

std::string Title(const std::vector<SweepRow>& rows) {
  const SweepRow& row = EchoedRow(rows);
  std::string title = "Sweep of ";
  for (std::size_t i = 0; i < row.fields.size(); ++i) {
    if (i > 0) title += ", ";
    if (row.fields.size() > 1) title += ColumnOf(row, i) + " = ";
    title += row.fields[i].first;
  }
  const bool none_is_feasible = std::all_of(
      rows.begin(), rows.end(), [](const SweepRow& x) { return x.report.infeasible.has_value(); });
  if (none_is_feasible) title += "; no point is feasible";
  return title + "; what is above is its first " +
         (&row == &rows.front() ? "point" : "point with a valid plan");
}

// Why points are infeasible, one paragraph each.
std::string ReasonsText(const std::vector<SweepRow>& rows) {
  constexpr std::size_t kMostReasons = 20;
  std::string text;
  std::size_t infeasible = 0;
  for (const SweepRow& row : rows) {
    if (!row.report.infeasible || ++infeasible > kMostReasons) continue;
    std::string point;
    for (std::size_t i = 0; i < row.fields.size(); ++i) {
      point += StrCat(i > 0 ? ", " : "", ColumnOf(row, i), " = ", row.fields[i].second);
    }
    text += Paragraph("  Infeasible:", 14, StrCat(point, ": ", row.report.infeasible->message));
  }
  if (infeasible > kMostReasons) {
    text += StrCat("  ... ", infeasible - kMostReasons, " more: --json\n");
  }
  return text.empty() ? "" : "\n" + text;
}

// A path may begin with the name of its message.
bool AreOneField(const std::string& a, const std::string& b) {
  for (const char* message : {"", "model.", "cluster."}) {
    if (message + a == b || message + b == a) return true;
  }
  return false;
}

}  // namespace

Result<std::vector<SweepPoint>> ExpandSweep(const Options& options) {
  std::vector<SweepPoint> points = {{{}, options}};
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < options.given().size(); ++i) {
    const Option& option = options.given()[i];
    if (option.name != "set") continue;
    const Result<FieldValues> parsed = ParseFieldValues(option.value);
    if (!parsed.ok()) return Error{.message = "--set: " + parsed.error().message};
    const FieldValues& field = parsed.value();
    for (const std::string& path : paths) {
      if (AreOneField(path, field.path)) {
        return Error{.message = StrCat("--set: ", field.path, " is given twice")};
      }
    }
    paths.push_back(field.path);
    if (field.values.size() == 1) continue;
    if (points.size() * field.values.size() > kMaxSweepPoints) {
      return Error{.message =
                       StrCat("--set: the sweep has more than ", kMaxSweepPoints, " points")};
    }
    std::vector<SweepPoint> expanded;
    for (const SweepPoint& point : points) {
      for (const std::string& value : field.values) {
        SweepPoint next = point;
        next.fields.emplace_back(field.path, value);
        next.options = next.options.With(i, StrCat(field.path, "=", value));
        expanded.push_back(std::move(next));
      }
    }
    points = std::move(expanded);
  }
  return points;
}

std::string SweepText(const std::vector<SweepRow>& rows) {
  std::vector<std::string> titles;
  for (std::size_t i = 0; i < rows.front().fields.size(); ++i) {
    titles.push_back(ColumnOf(rows.front(), i));
  }
  double longest_s = 0;
  for (const SweepRow& row : rows) {
    if (row.report.results) longest_s = std::max(longest_s, row.report.results->iteration_s);
  }
  const TableUnit unit = SecondsUnit(longest_s);
  titles.push_back(StrCat("iteration ", unit.name));
  for (const char* title :
       {"of first", "tokens/s/GPU", "MFU %", "GPU GiB", "host GiB a node", "offload", ""}) {
    titles.push_back(title);
  }
  TextTable table(titles);
  table.AlignLeft(titles.size() - 1);
  double first_s = 0;
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [field, value] : row.fields) cells.push_back(value);
    if (row.report.results) {
      const SimulationResults& x = *row.report.results;
      if (first_s == 0) first_s = x.iteration_s;
      cells.insert(cells.end(), {Fixed(x.iteration_s / unit.size, 3),
                                 first_s == 0 ? "-" : Fixed(x.iteration_s / first_s, 3),
                                 Grouped(x.tokens_per_s_per_gpu, 1), Fixed(100 * x.mfu, 1),
                                 Gibibytes(x.peak_gpu_bytes), Gibibytes(x.host.peak_bytes),
                                 Fixed(row.report.plan.offload_ratio, 3)});
    }
    cells.resize(titles.size() - 1, "-");
    cells.push_back(row.report.infeasible ? row.report.infeasible->rule : "");
    table.AddRow(std::move(cells));
  }
  std::string text = EchoText(EchoedRow(rows).report) + "\n" + Paragraph("", 0, Title(rows)) +
                     table.ToString() + ReasonsText(rows);
  std::vector<std::string> warnings;
  for (const SweepRow& row : rows) {
    for (const std::string& warning : row.report.warnings) {
      if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) {
        warnings.push_back(warning);
      }
    }
  }
  return text + WarningsText(warnings);
}

nlohmann::ordered_json SweepJson(const std::vector<SweepRow>& rows) {
  nlohmann::ordered_json sweep = nlohmann::ordered_json::array();
  for (const SweepRow& row : rows) {
    nlohmann::ordered_json set = nlohmann::ordered_json::object();
    for (const auto& [field, value] : row.fields) set[field] = value;
    nlohmann::ordered_json point = {{"set", set}};
    point.update(ToJson(row.report));
    sweep.push_back(std::move(point));
  }
  return {{"sweep", sweep}};
}

std::vector<std::string> FieldsWithoutEffect(const std::vector<SweepRow>& rows) {
  std::vector<std::string> warnings;
  for (std::size_t field = 0; field < rows.front().fields.size(); ++field) {
    // Two infeasible points tell nothing: neither was timed.
    bool compared = false, changed = false;
    for (const SweepRow& a : rows) {
      for (const SweepRow& b : rows) {
        if (&a == &b || !DiffersOnlyIn(field, a, b)) continue;
        if (a.report.infeasible && b.report.infeasible) continue;
        compared = true;
        changed |= Figures(a.report) != Figures(b.report);
      }
    }
    if (compared && !changed) {
      warnings.push_back(StrCat("--set ", rows.front().fields[field].first,
                                " changed nothing: its values give the same iteration time and "
                                "peak memory"));
    }
  }
  return warnings;
}

}  // namespace twinstep
