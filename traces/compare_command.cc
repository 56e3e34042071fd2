#include "traces/compare_command.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/options/options.h"
#include "sim/options/output_files.h"
#include "sim/options/positional.h"
#include "sim/options/read_option.h"
#include "sim/options/run_verb.h"
#include "sim/report/json_report.h"
#include "sim/report/text_table.h"
#include "sim/report/write_text.h"
#include "sim/str_cat.h"
#include "traces/activity_comparison.h"
#include "traces/activity_json.h"
#include "traces/activity_text.h"
#include "traces/compare.h"
#include "traces/compare_json.h"
#include "traces/compare_text.h"
#include "traces/open_trace.h"
#include "traces/read_report.h"
#include "traces/show/html_page.h"
#include "traces/step_option.h"

namespace twinstep {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = {
      {"What to compare", {StepOption("step-a"), {"step-b", "N|all", "the same for B"}}},
      {"Verdict",
       {{"tolerance", "X",
         "how far A's iteration may be off, as a fraction of B's (0.1: ten per cent)"}}},
      {"Output",
       {Writes({"json", "FILE|-",
                "the comparison as JSON; - : to standard output, in place of the text"}),
        Writes({"html", "FILE",
                "the comparison below both timelines, as a page that needs no other file"}),
        {"help", nullptr, "this text"}}}};
  return kGroups;
}

constexpr std::string_view kHelp = R"(twinstep compare: two traces of an iteration, side by side

  twinstep compare A B [OPTION ...]

A and B are traces: .pb, .pb.gz or .json of `twinstep simulate --trace` and `train --trace`, or
profiles of PyTorch (Kineto's Chrome JSON, .json or .json.gz), or Chakra traces (.et). Several
ranks: a folder, or names with commas between them. Errors are A / B - 1.

Traces of one graph, simulated or executed, are compared task by task; any others by phase, kind
and operator: what the ranks do, and how much of it hides behind computation.
)";

constexpr std::string_view kExamples = R"(
Examples
  Is the simulation like what PyTorch does?
    twinstep simulate ... --trace simulated.pb
    twinstep compare simulated.pb rank0.pt.trace.json.gz --tolerance 0.1
  What did the new version change?
    twinstep compare new.json.gz old.json.gz --step-a 12 --step-b 12 --json difference.json

Exit status
  0 done   1 out of tolerance   2 bad input   3 internal error
)";

std::string Help() { return StrCat(kHelp, OptionsHelp(Groups()), kExamples); }

class Command {
 public:
  Command(const Options& options, const VerbOutput& output) : options_(options), output_(output) {}

  ExitCode Run(const std::vector<std::string>& names) {
    if (names.size() != 2) {
      return output_.Fail(
          Error{.message = StrCat("takes two traces, not ", names.size(),
                                  " (twinstep compare A B; several ranks: a folder, or "
                                  "names with commas between them)")});
    }
    std::optional<double> tolerance;
    constexpr double kMost = 1e6;
    const Status read = ReadReal(options_, "tolerance", 0, kMost, [&](double x) { tolerance = x; });
    if (!read.ok()) return output_.Fail(read.error());
    std::array<OpenedTrace, 2> opened;
    for (std::size_t i = 0; i < 2; ++i) {
      const Result<StepChoice> step = ReadStepOption(options_, i == 0 ? "step-a" : "step-b");
      if (!step.ok()) return output_.Fail(step.error());
      Result<OpenedTrace> trace = OpenTrace(names[i], {step.value()});
      if (!trace.ok()) return output_.Fail(trace.error());
      opened[i] = std::move(trace).value();
      const Status free = CheckOutputFiles(options_, opened[i].report.files);
      if (!free.ok()) return output_.Fail(free.error());
    }
    return Compare(names, opened[0], opened[1], tolerance);
  }

 private:
  ExitCode Compare(const std::vector<std::string>& names, const OpenedTrace& a,
                   const OpenedTrace& b, std::optional<double> tolerance) {
    std::string text = ReadText("A", a.report) + ReadText("B", b.report);
    Json json;
    bool ok = true;
    std::string why_not_by_task;
    if (HasGraph(a.trace) && HasGraph(b.trace)) {
      CompareOptions options;
      options.tolerances.iteration = tolerance;
      const Result<TraceComparison> by_task = CompareTraces(a.trace, b.trace, options);
      if (by_task.ok()) {
        text += "\n" + ComparisonText(by_task.value());
        json = ToJson(by_task.value());
        json["by"] = "task";
        ok = by_task.value().ok();
      } else {
        why_not_by_task = by_task.error().message;
      }
    }
    if (json.is_null()) {
      const ActivityComparison comparison = CompareActivities(a.trace, b.trace, tolerance);
      if (!why_not_by_task.empty()) {
        text += Paragraph("", 12, StrCat("not task by task: ", why_not_by_task));
        json["not_by_task"] = why_not_by_task;
      }
      text += "\n" + ActivityText(comparison);
      json.update(ToJson(comparison));
      json["by"] = "kind";
      ok = comparison.ok();
    }
    json["a"]["read"] = ToJson(a.report);
    json["b"]["read"] = ToJson(b.report);
    if (const auto path = options_.Get("html")) {
      const Result<std::string> page =
          HtmlPage({&a.trace, &b.trace}, {.report = text, .files = names});
      if (!page.ok()) return output_.Fail(page.error());
      if (const Status written = WriteTextFile(*path, page.value()); !written.ok()) {
        return output_.Fail(written.error());
      }
    }
    const auto path = options_.Get("json");
    if (path != "-") output_.out() << text;
    if (path == "-") {
      output_.out() << JsonText(json);
    } else if (path) {
      if (const Status written = WriteTextFile(*path, JsonText(json)); !written.ok()) {
        return output_.Fail(written.error());
      }
    }
    return ok ? ExitCode::kDone : ExitCode::kNo;
  }

  // Whether its task ids are those of a task graph.
  static bool HasGraph(const Trace& trace) {
    return trace.origin() == Trace::SIMULATED || trace.origin() == Trace::EXECUTED;
  }

  const Options& options_;
  const VerbOutput& output_;
};

}  // namespace

ExitCode RunCompareCommand(const std::vector<std::string>& arguments, std::ostream& out,
                           std::ostream& err) {
  const VerbOutput output("compare", out, err);
  const SplitArguments split = SplitPositional(Groups(), arguments);
  return RunVerb(
      output, ParseOptions(Groups(), "compare", split.options), Help,
      [&](const Options& options) { return Command(options, output).Run(split.positional); });
}

}  // namespace twinstep
