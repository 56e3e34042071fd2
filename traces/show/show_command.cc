#include "traces/show/show_command.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "sim/cost/graph_costs.h"
#include "sim/options/options.h"
#include "sim/options/output_files.h"
#include "sim/options/positional.h"
#include "sim/options/read_option.h"
#include "sim/options/run_verb.h"
#include "sim/report/terminal.h"
#include "sim/report/text_table.h"
#include "sim/report/write_text.h"
#include "sim/str_cat.h"
#include "traces/open_trace.h"
#include "traces/show/html_page.h"
#include "traces/show/rank_list.h"
#include "traces/show/text_timeline.h"
#include "traces/step_option.h"

namespace twinstep {
namespace {

constexpr double kLongestSeconds = 1e6;  // Fits into picoseconds of 63 bits.
constexpr int kMostTraces = 2;

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = {
      {"How",
       {Writes({"html", "FILE", "a page for a browser, which needs no other file and no network"}),
        {"text", nullptr, "lanes as text (the default)"}}},
      {"What",
       {StepOption("step"),
        {"ranks", "LIST", "only these global ranks: 0,4..7"},
        {"from", "SECONDS", "from this time on (default: 0)"},
        {"to", "SECONDS", "up to this time (default: the end of the iteration)"}}},
      {"Text",
       {{"width", "N", "columns (default: the terminal's, else 100)"},
        {"help", nullptr, "this text"}}},
  };
  return kGroups;
}

std::string Help() {
  return StrCat(
      "twinstep show: when each task of a trace ran, for a browser or a terminal\n\n"
      "  twinstep show TRACE [TRACE] [OPTION ...]\n\n"
      "TRACE is what simulate and train write with --trace (.pb, also compressed as .pb.gz, .json, "
      ".et),\n"
      "a profile of PyTorch (.json, .json.gz), or Chakra traces (.et); of several ranks, a folder "
      "or\n"
      "names with commas between them. Of two traces, the page shows one above the other; of one\n"
      "graph, it sets the times of each task side by side.\n",
      OptionsHelp(Groups()),
      "\nExample\n"
      "  twinstep show simulated.pb executed.pb --html timeline.html\n");
}

class Command {
 public:
  Command(std::vector<std::string> files, const Options& options, const VerbOutput& output)
      : files_(std::move(files)), options_(options), output_(output) {}

  ExitCode Run() {
    if (const Status status = ReadOptions(); !status.ok()) return output_.Fail(status.error());
    for (const std::string& file : files_) {
      Result<OpenedTrace> opened = OpenTrace(file, {step_});
      if (!opened.ok()) return output_.Fail(opened.error());
      const Status free = CheckOutputFiles(options_, opened.value().report.files);
      if (!free.ok()) return output_.Fail(free.error());
      for (const std::string& remark : opened.value().report.remarks) {
        output_.Say(StrCat(file, ": ", remark));
      }
      traces_.push_back(std::move(opened.value().trace));
    }
    if (const Status status = CheckSelection(); !status.ok()) return output_.Fail(status.error());
    if (options_.Has("html")) {
      if (const Status status = WritePage(); !status.ok()) return output_.Fail(status.error());
    }
    if (options_.Has("text") || !options_.Has("html")) WriteText();
    return ExitCode::kDone;
  }

 private:
  Status ReadOptions() {
    if (files_.empty() || files_.size() > kMostTraces) {
      return Error{.message = StrCat("one trace or two, not ", files_.size(),
                                     ": twinstep show TRACE [TRACE] [OPTION ...]")};
    }
    const Result<StepChoice> step = ReadStepOption(options_, "step");
    if (!step.ok()) return step.error();
    step_ = step.value();
    if (const auto list = options_.Get("ranks")) {
      Result<std::vector<RankRange>> ranks = ParseRankList(*list);
      if (!ranks.ok()) return OptionError("ranks", ranks.error().message);
      view_.ranks = std::move(ranks.value());
    }
    const Status times = FirstError(
        {ReadReal(options_, "from", 0, kLongestSeconds,
                  [&](double seconds) { view_.from_ps = ToPicoseconds(seconds); }),
         ReadReal(options_, "to", 0, kLongestSeconds,
                  [&](double seconds) { view_.to_ps = ToPicoseconds(seconds); }),
         ReadInteger(options_, "width", 60, 10000, [&](std::int64_t width) { width_ = width; })});
    if (!times.ok()) return times;
    if (options_.Has("to") && view_.to_ps <= view_.from_ps) {
      return OptionError("to", StrCat("is not after --from ", options_.Get("from").value_or("0")));
    }
    if (options_.Has("width") && options_.Has("html") && !options_.Has("text")) {
      return OptionError("width", "is for --text");
    }
    return Unit{};
  }

  // "ranks 0, 2": those that stand for others do not have the others' numbers.
  static std::string RanksText(const Trace& trace) {
    constexpr int kMostListed = 8;
    std::string text = trace.ranks_size() == 1 ? "rank " : "ranks ";
    for (int i = 0; i < trace.ranks_size() && i < kMostListed; ++i) {
      text += StrCat(i == 0 ? "" : ", ", trace.ranks(i).global_rank());
    }
    return text + (trace.ranks_size() > kMostListed ? " ..." : "");
  }

  // A selection that shows nothing is a mistake.
  Status CheckSelection() const {
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      const Trace& trace = traces_[i];
      const bool shows =
          view_.ranks.empty() ||
          std::any_of(trace.ranks().begin(), trace.ranks().end(), [&](const Trace::Rank& rank) {
            return Contains(view_.ranks, rank.global_rank());
          });
      if (!shows) {
        return OptionError(
            "ranks", StrCat("names no rank of ", files_[i], ", which has ", RanksText(trace)));
      }
    }
    const bool starts_late = std::all_of(traces_.begin(), traces_.end(), [&](const Trace& trace) {
      return view_.from_ps > 0 && view_.from_ps >= trace.iteration_ps();
    });
    if (starts_late) return OptionError("from", "is after the end of the iteration");
    return Unit{};
  }

  Status WritePage() const {
    std::vector<const Trace*> traces;
    for (const Trace& trace : traces_) traces.push_back(&trace);
    PageView view = view_;
    if (files_.size() > 1) view.files = files_;
    const Result<std::string> page = HtmlPage(traces, view);
    if (!page.ok()) return page.error();
    return WriteTextFile(*options_.Get("html"), page.value());
  }

  void WriteText() const {
    TextTimelineOptions text = {.width = width_ > 0 ? static_cast<std::size_t>(width_)
                                                    : TerminalWidth(STDOUT_FILENO, kReportWidth),
                                .colour = &output_.out() == &std::cout && IsTerminal(STDOUT_FILENO),
                                .from_ps = view_.from_ps,
                                .to_ps = view_.to_ps};
    if (!view_.ranks.empty()) {
      text.shows_rank = [this](std::uint32_t rank) { return Contains(view_.ranks, rank); };
    }
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      output_.out() << (i == 0 ? "" : "\n");
      if (traces_.size() > 1) output_.out() << files_[i] << "\n";
      output_.out() << TextTimeline(traces_[i], text);
    }
  }

  const std::vector<std::string> files_;
  const Options& options_;
  const VerbOutput& output_;
  StepChoice step_;
  PageView view_;
  std::int64_t width_ = 0;
  std::vector<Trace> traces_;
};

}  // namespace

ExitCode RunShowCommand(const std::vector<std::string>& arguments, std::ostream& out,
                        std::ostream& err) {
  const VerbOutput output("show", out, err);
  const SplitArguments split = SplitPositional(Groups(), arguments);
  return RunVerb(
      output, ParseOptions(Groups(), "show", split.options), Help,
      [&](const Options& options) { return Command(split.positional, options, output).Run(); });
}

}  // namespace twinstep
