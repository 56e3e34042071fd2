#include "sim/search/rank_outputs.h"

#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "sim/files/atomic_file.h"
#include "sim/format.h"
#include "sim/options/output_files.h"
#include "sim/report/json_report.h"
#include "sim/report/terminal.h"
#include "sim/report/write_text.h"
#include "sim/search/plan_space.h"
#include "sim/search/rank_json.h"
#include "sim/search/rank_text.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Of tables: the terminal's, and any in a file.
std::size_t TableWidth(const std::ostream& out) {
  return &out == &std::cout ? TerminalWidth(STDOUT_FILENO, 0) : 0;
}

// "plan-256-1.textproto": the best of 256 GPUs.
Status WritePlans(const std::string& directory, const Ranking& report) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Error{.message = StrCat(directory, ": cannot make it: ", error.message())};
  for (const RankPoint& point : report.points) {
    for (std::size_t i = 0; i < point.ranking.size(); ++i) {
      const ResolvedPlan& plan = point.ranking[i].plan;
      std::string text;
      google::protobuf::TextFormat::PrintToString(ToPlan(plan), &text);
      std::string what = StrCat(CountOf(point.gpus, "GPU"), ": ", ShortName(plan));
      // The plan does not say of how many layers it is.
      if (point.maximum && point.maximum->of == Maximize::kLayers) {
        what += StrCat("; --set layers=", point.maximum->value);
      }
      const std::string path = StrCat(directory, "/plan-", point.gpus, "-", i + 1, ".textproto");
      const Status status = WriteTextFile(path, StrCat("# ", what, "\n", text));
      if (!status.ok()) return status;
    }
  }
  return Unit{};
}

// "plan-256-1.textproto" and the like.
bool IsPlanName(const std::string& name) {
  return name.starts_with("plan-") && name.ends_with(".textproto");
}

// What --plans may write: in place of files of an earlier search, and under a name that an option
// has for a new file.
std::vector<OutputFile> PossiblePlans(const Options& options, const std::string& directory) {
  std::vector<OutputFile> plans;
  const auto add = [&](const std::string& name) {
    if (IsPlanName(name))
      plans.push_back({"plans", (std::filesystem::path(directory) / name).string()});
  };
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    add(at->path().filename().string());
  }
  for (const Option& option : options.given()) {
    if (option.file != FileUse::kWritten) continue;
    add(std::filesystem::path(WrittenPath(option.value)).filename().string());
  }
  return plans;
}

}  // namespace

Status CheckRankOutputs(const Options& options, bool is_sweep) {
  if (options.Has("plot") && !is_sweep) {
    return Error{.message = "--plot draws scaling over several --gpus or --nodes"};
  }
  if (options.Has("explain") && options.Get("json") == "-") {
    return Error{.message = "--explain goes to standard output, as --json - does"};
  }
  const auto plans = options.Get("plans");
  return plans ? CheckOutputFiles(options, {}, PossiblePlans(options, *plans)) : Status(Unit{});
}

Status WriteRankOutputs(const Options& options, const Ranking& report, std::ostream& out) {
  const auto json = options.Get("json");
  if (json == "-") {
    out << JsonText(ToJson(report));
  } else {
    out << ToText(report, options.Has("explain"), TableWidth(out));
    if (json) {
      if (Status status = WriteTextFile(*json, JsonText(ToJson(report))); !status.ok())
        return status;
    }
  }
  if (const auto csv = options.Get("csv")) {
    if (Status status = WriteTextFile(*csv, ToCsv(report)); !status.ok()) return status;
  }
  if (const auto plot = options.Get("plot")) {
    if (Status status = WriteTextFile(*plot, ToSvg(ScalingChart(report))); !status.ok())
      return status;
  }
  if (const auto plans = options.Get("plans")) return WritePlans(*plans, report);
  return Unit{};
}

}  // namespace twinstep
