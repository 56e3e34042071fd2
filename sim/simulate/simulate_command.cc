#include "sim/simulate/simulate_command.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>
#include <vector>

#include "sim/graph/dot.h"
#include "sim/options/output_files.h"
#include "sim/options/read_option.h"
#include "sim/options/run_verb.h"
#include "sim/report/json_report.h"
#include "sim/report/progress.h"
#include "sim/report/schedule_view.h"
#include "sim/report/terminal.h"
#include "sim/report/text_report.h"
#include "sim/report/text_table.h"
#include "sim/report/write_text.h"
#include "sim/simulate/effect_check.h"
#include "sim/simulate/graph_command.h"
#include "sim/simulate/options.h"
#include "sim/simulate/simulate_input.h"
#include "sim/simulate/simulation.h"
#include "sim/simulate/sweep.h"
#include "sim/str_cat.h"
#include "traces/chakra/chakra_trace.h"
#include "traces/memory_curves.h"
#include "traces/trace_builder.h"
#include "traces/trace_io.h"

namespace twinstep {
namespace {

// Memory curves in a trace: enough for a screen, and a peak is never lost.
constexpr std::size_t kTraceMemoryPoints = 2000;

class Command {
 public:
  Command(const Options& options, const VerbOutput& output) : options_(options), output_(output) {}

  ExitCode Run() {
    if (const Status graph = CheckGraphOptions(options_); !graph.ok()) {
      return output_.Fail(graph.error());
    }
    if (options_.Has("graph")) return RunGraphCommand(options_, output_);
    const Result<std::vector<SweepPoint>> points = ExpandSweep(options_);
    if (!points.ok()) return output_.Fail(points.error());
    const bool is_sweep = points.value().size() > 1;
    if (const Status status = CheckOutputs(is_sweep); !status.ok())
      return output_.Fail(status.error());
    return is_sweep ? RunSweep(points.value()) : RunOnce();
  }

 private:
  // What cannot be written is said before the work and not after it.
  Status CheckOutputs(bool is_sweep) const {
    const auto trace = options_.Get("trace");
    if (trace) {
      if (const Status known = CheckTraceName(*trace, /*or_chakra=*/true); !known.ok())
        return known;
    }
    const bool arrows_fit = trace && (trace->ends_with(".json") || trace->ends_with(".pftrace"));
    if (options_.Has("trace-flows") && !arrows_fit) {
      return Error{.message = "--trace-flows needs --trace FILE.json or FILE.pftrace"};
    }
    if (options_.Has("schedule-view") && JsonToStandardOutput()) {
      return Error{.message = "--schedule-view goes to standard output, as --json - does"};
    }
    for (const char* name : {"trace", "dot", "schedule-view"}) {
      if (is_sweep && options_.Has(name)) {
        return Error{.message = StrCat("--", name, " is for one iteration, and --set sweeps")};
      }
    }
    return Unit{};
  }

  bool JsonToStandardOutput() const { return options_.Get("json") == "-"; }

  Status WriteJson(const nlohmann::ordered_json& json) {
    const auto path = options_.Get("json");
    if (!path) return Unit{};
    if (JsonToStandardOutput()) {
      output_.out() << JsonText(json);
      return Unit{};
    }
    return WriteTextFile(*path, JsonText(json));
  }

  ExitCode RunOnce() {
    Result<SimulateInput> input = ReadInput(options_);
    if (!input.ok()) return output_.Fail(input.error());
    // A file a rank: none stands for others.
    const auto trace = options_.Get("trace");
    if (trace && IsChakraName(*trace)) {
      input.value().all_ranks = true;
      const Status free = CheckOutputFiles(options_, {}, ChakraFiles(*trace, input.value().gpus));
      if (!free.ok()) return output_.Fail(free.error());
      const Status alone = CheckChakraFiles(*trace, input.value().gpus);
      if (!alone.ok()) return output_.Fail(OptionError("trace", alone.error().message));
    }
    Progress progress(kSimulateSteps + StepsOfEffectCheck(options_));
    Result<Simulation> done =
        Simulate(input.value(), &progress, options_.Has("trace") ? kTraceMemoryPoints : 0);
    if (!done.ok()) return output_.Fail(done.error());
    Simulation& simulation = done.value();
    AddEffectWarnings(input.value(), &simulation, &progress);
    progress.Finish();

    const Report& report = simulation.report;
    if (!JsonToStandardOutput()) {
      output_.out() << ToText(report);
      if (options_.Has("schedule-view") && simulation.iteration)
        ShowSchedule(*simulation.iteration);
    }
    if (const Status status = WriteJson(ToJson(report)); !status.ok())
      return output_.Fail(status.error());
    if (simulation.iteration) {
      if (const Status status = WriteFiles(simulation); !status.ok())
        return output_.Fail(status.error());
    }
    return report.infeasible ? report.infeasible->code : ExitCode::kDone;
  }

  static std::vector<OutputFile> ChakraFiles(const std::string& trace, std::int64_t ranks) {
    std::vector<OutputFile> files = {{"trace", ChakraGroupsName(trace)}};
    for (std::int64_t i = 0; i < ranks; ++i) {
      files.push_back({"trace", ChakraFileName(trace, static_cast<std::uint32_t>(i))});
    }
    return files;
  }

  void AddEffectWarnings(const SimulateInput& input, Simulation* simulation, Progress* progress) {
    for (std::string& warning : OptionsWithoutEffect(options_, input, *simulation, progress)) {
      simulation->report.warnings.push_back(std::move(warning));
    }
  }

  void ShowSchedule(const SimulatedIteration& iteration) {
    const ScheduleViewOptions view = {
        .width = TerminalWidth(STDOUT_FILENO, kReportWidth),
        .colour = &output_.out() == &std::cout && IsTerminal(STDOUT_FILENO)};
    output_.out() << "\n"
                  << DrawSchedule(iteration.graph, iteration.replay, view) << "\n"
                  << StepTable(iteration.graph, iteration.replay, 0);
  }

  Status WriteFiles(const Simulation& simulation) {
    const SimulatedIteration& run = *simulation.iteration;
    if (const auto path = options_.Get("trace")) {
      const std::vector<TraceMemoryCurve> curves = MemoryCurves(run.memory);
      const std::string name =
          StrCat(simulation.report.model.name(), " on ", simulation.report.plan.gpus, " GPUs of ",
                 simulation.report.cluster.name());
      const Trace trace = BuildTrace(run.graph, run.replay, name, curves);
      const ChromeJsonOptions options{options_.Has("trace-flows") ? &run.graph : nullptr};
      const Status status = IsChakraName(*path) ? WriteChakra(run.graph, trace, *path)
                                                : WriteTrace(trace, options, *path);
      if (!status.ok()) return status;
    }
    if (const auto path = options_.Get("dot")) return WriteTextFile(*path, ToDot(run.graph));
    return Unit{};
  }

  ExitCode RunSweep(const std::vector<SweepPoint>& points) {
    Progress progress(points.size() * kSimulateSteps + StepsOfEffectCheck(options_));
    std::vector<SweepRow> rows;
    for (const SweepPoint& point : points) {
      const Result<SimulateInput> input = ReadInput(point.options);
      if (!input.ok()) return output_.Fail(input.error());
      Result<Simulation> done = Simulate(input.value(), &progress);
      if (!done.ok()) return output_.Fail(done.error());
      if (rows.empty()) AddEffectWarnings(input.value(), &done.value(), &progress);
      rows.push_back({point.fields, std::move(done.value().report)});
    }
    progress.Finish();
    const std::vector<std::string> idle_fields = FieldsWithoutEffect(rows);
    for (SweepRow& row : rows) {
      row.report.warnings.insert(row.report.warnings.end(), idle_fields.begin(), idle_fields.end());
    }
    if (!JsonToStandardOutput()) output_.out() << SweepText(rows);
    if (const Status status = WriteJson(SweepJson(rows)); !status.ok())
      return output_.Fail(status.error());
    const bool all_infeasible = std::all_of(
        rows.begin(), rows.end(), [](const SweepRow& row) { return row.report.infeasible; });
    return all_infeasible ? ExitCode::kNo : ExitCode::kDone;
  }

  const Options& options_;
  const VerbOutput& output_;
};

}  // namespace

ExitCode RunSimulateCommand(const std::vector<std::string>& arguments, std::ostream& out,
                            std::ostream& err) {
  const VerbOutput output("simulate", out, err);
  return RunVerb(output, ParseOptions(arguments), SimulateHelp,
                 [&](const Options& options) { return Command(options, output).Run(); });
}

}  // namespace twinstep
