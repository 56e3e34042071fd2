#include "sim/search/rank_outputs.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "sim/files/atomic_file.h"
#include "sim/options/output_files.h"
#include "sim/report/json_report.h"
#include "sim/report/terminal.h"
#include "sim/report/write_text.h"
#include "sim/search/plan_files.h"
#include "sim/search/rank_json.h"
#include "sim/search/rank_text.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Of tables: the terminal's, and any in a file.
std::size_t TableWidth(const std::ostream& out) {
  return &out == &std::cout ? TerminalWidth(STDOUT_FILENO, 0) : 0;
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

Status CheckRankOutputs(const Options& options, const Ranking& asked, std::size_t gpus) {
  if (options.Has("plot") && gpus == 1) {
    return Error{.message = "--plot draws scaling over several --gpus or --nodes"};
  }
  if (options.Has("explain") && options.Get("json") == "-") {
    return Error{.message = "--explain goes to standard output, as --json - does"};
  }
  const auto plans = options.Get("plans");
  if (!plans) return Unit{};
  const Status distinct = CheckOutputFiles(options, {}, PossiblePlans(options, *plans));
  return distinct.ok() ? PreparePlanFolder(*plans, asked) : distinct;
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
