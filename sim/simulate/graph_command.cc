#include "sim/simulate/graph_command.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/gpu_name.h"
#include "sim/cost/graph_costs.h"
#include "sim/format.h"
#include "sim/options/input_options.h"
#include "sim/options/output_files.h"
#include "sim/options/read_option.h"
#include "sim/report/json_report.h"
#include "sim/report/text_table.h"
#include "sim/report/write_text.h"
#include "sim/simulate/work_what_if.h"
#include "sim/str_cat.h"
#include "traces/activity_comparison.h"
#include "traces/activity_json.h"
#include "traces/activity_text.h"
#include "traces/chakra/chakra_trace.h"
#include "traces/open_trace.h"
#include "traces/read_report.h"
#include "traces/step_option.h"
#include "traces/time_cells.h"
#include "traces/trace_io.h"
#include "traces/work_replay.h"

namespace twinstep {
namespace {

using Json = nlohmann::ordered_json;

// A replay without change that is further off is said to be.
constexpr double kFaithful = 0.03;

double Seconds(std::int64_t time_ps) {
  return static_cast<double>(time_ps) / kPicosecondsPerSecond;
}

std::string Signed(double a_s, double b_s) { return SignedPercent(TimePair{a_s, b_s}.Error()); }

class Command {
 public:
  Command(const Options& options, const VerbOutput& output) : options_(options), output_(output) {}

  ExitCode Run() {
    const Status read = Read();
    if (!read.ok()) return output_.Fail(read.error());
    Result<WorkReplay> as_it_was = ReplayWork(opened_.work, {});
    if (!as_it_was.ok()) {
      return output_.Fail(Error{.message = StrCat(*options_.Get("graph"), ": cannot be replayed: ",
                                                  as_it_was.error().message)});
    }
    std::vector<std::int64_t> touched;
    std::optional<ClusterChange> change;
    if (traced_on_) change.emplace(ClusterChange{*traced_on_, *cluster_});
    const Result<std::vector<double>> factors =
        FactorsOf(opened_.work, scales_, change ? &*change : nullptr, &touched);
    if (!factors.ok()) return output_.Fail(factors.error());
    for (std::size_t i = 0; i < scales_.size(); ++i) {
      if (touched[i] > 0) continue;
      warnings_.push_back(
          StrCat("--scale ", scales_[i].what, " changed nothing: the trace has no such task"));
    }
    Result<WorkReplay> what_if = ReplayWork(opened_.work, factors.value());
    if (!what_if.ok()) return output_.Fail(what_if.error());
    return Report(as_it_was.value(), what_if.value());
  }

 private:
  Status Read() {
    const Result<StepChoice> step = ReadStepOption(options_, "graph-step");
    if (!step.ok()) return step.error();
    std::vector<std::string> texts;
    for (const Option& option : options_.given()) {
      if (option.name == "scale") texts.push_back(option.value);
    }
    Result<std::vector<WorkScale>> scales = ParseWorkScales(texts);
    if (!scales.ok()) return scales.error();
    scales_ = std::move(scales).value();
    if (options_.Has("cluster")) {
      Result<Cluster> cluster = ReadClusterOption(options_);
      if (!cluster.ok()) return cluster.error();
      cluster_ = std::move(cluster).value();
    }
    if (const auto name = options_.Get("traced-on")) {
      // The same option under another name: a cluster by name or file.
      std::vector<Option> given = options_.given();
      std::erase_if(given, [](const Option& option) { return option.name == "cluster"; });
      given.push_back({"cluster", *name});
      Result<Cluster> cluster = ReadClusterOption(Options(std::move(given)));
      if (!cluster.ok()) return cluster.error();
      traced_on_ = std::move(cluster).value();
      if (!cluster_) return OptionError("traced-on", "needs --cluster, which to replay on");
    }
    Result<OpenedWork> opened = OpenWork(*options_.Get("graph"), {step.value()});
    if (!opened.ok()) return opened.error();
    opened_ = std::move(opened).value();
    const Status free = CheckOutputFiles(options_, opened_.report.files);
    if (!free.ok()) return free;
    return Price();
  }

  // What a cluster is for: tasks without a time, or another machine.
  Status Price() {
    for (const std::string& device : opened_.report.devices) {
      if (traced_on_ && AreOtherChips(device, traced_on_->gpu().name())) {
        warnings_.push_back(StrCat("the trace is of ", device, ", and --traced-on says ",
                                   traced_on_->name(), ", which has ", traced_on_->gpu().name(),
                                   ": times are scaled by what differs from the latter"));
      }
    }
    const auto untimed = std::count_if(
        opened_.work.tasks.begin(), opened_.work.tasks.end(), [](const WorkTask& task) {
          return task.duration_ps == 0 && !task.hidden &&
                 (task.bytes > 0 || task.flops > 0 || task.memory_bytes > 0);
        });
    if (!cluster_) {
      if (untimed > 0) {
        warnings_.push_back(StrCat(CountOf(untimed, "task"),
                                   " without a duration take no time: --cluster prices "
                                   "them"));
      }
      return Unit{};
    }
    if (untimed > 0) {
      const Cluster& machine = traced_on_ ? *traced_on_ : *cluster_;
      const std::int64_t priced = PriceUntimed(machine, &opened_.work);
      opened_.report.remarks.push_back(
          StrCat(CountOf(priced, "task"), " without a duration priced by ", machine.name()));
    } else if (!traced_on_) {
      return OptionError("cluster",
                         "needs --traced-on, the cluster that was traced: times are "
                         "scaled by what differs");
    }
    return Unit{};
  }

  std::string Changes() const {
    std::string text;
    for (const WorkScale& scale : scales_) {
      text += StrCat(text.empty() ? "" : ", ", scale.what, " x ", scale.factor);
    }
    if (traced_on_) {
      text +=
          StrCat(text.empty() ? "" : ", ", cluster_->name(), " in place of ", traced_on_->name());
    }
    return text;
  }

  ExitCode Report(WorkReplay& as_it_was, WorkReplay& what_if) {
    const double traced_s = Seconds(opened_.work.iteration_ps);
    const double unchanged_s = Seconds(as_it_was.makespan_ps);
    const double what_if_s = Seconds(what_if.makespan_ps);
    if (traced_s > 0 && std::abs(unchanged_s / traced_s - 1) > kFaithful) {
      warnings_.push_back(
          StrCat("the replay without change is ", Signed(unchanged_s, traced_s), " off the trace: ",
                 unchanged_s < traced_s ? "dependencies are missing in it"
                                        : "what waits for what in it contradicts its times"));
    }
    const std::string changes = Changes();
    as_it_was.trace.set_name("replay of " + opened_.work.name);
    what_if.trace.set_name(StrCat(as_it_was.trace.name(), changes.empty() ? "" : ", ", changes));
    // Without a change it is the replay that is judged.
    const bool against_trace = changes.empty() && traced_s > 0;
    const ActivityComparison comparison = CompareActivities(
        what_if.trace, against_trace ? TracedWork(opened_.work) : as_it_was.trace, std::nullopt);

    std::string text = ReadText("graph", opened_.report);
    TextTable table({"iteration", "time", "of the trace", "of the replay"});
    const auto row = [&](const std::string& name, double seconds) {
      table.AddRow({name, twinstep::Seconds(seconds),
                    traced_s > 0 ? Signed(seconds, traced_s) : "-", Signed(seconds, unchanged_s)});
    };
    if (traced_s > 0) row("as traced", traced_s);
    row("replayed without change", unchanged_s);
    if (!changes.empty()) row(changes, what_if_s);
    text += StrCat("\nResult\n", table.ToString(), "\n", ActivityText(comparison));

    Json json;
    json["iteration_time_s"] = what_if_s;
    json["unchanged_iteration_time_s"] = unchanged_s;
    json["traced_iteration_time_s"] = traced_s > 0 ? Json(traced_s) : Json(nullptr);
    json["unchanged_error"] = traced_s > 0 ? Json(unchanged_s / traced_s - 1) : Json(nullptr);
    json["tasks"] = what_if.trace.task_size();
    json["scale"] = Json::object();
    for (const WorkScale& scale : scales_) {
      json["scale"][scale.what] = json["scale"].value(scale.what, 1.0) * scale.factor;
    }
    json["read"] = ToJson(opened_.report);
    json["comparison"] = ToJson(comparison);
    json["warnings"] = warnings_;
    return Write(text, json, what_if);
  }

  ExitCode Write(const std::string& text, const Json& json, const WorkReplay& what_if) {
    const auto path = options_.Get("json");
    if (path == "-") {
      output_.out() << JsonText(json);
    } else {
      output_.out() << text;
      output_.Warn(warnings_);
    }
    if (path && *path != "-") {
      const Status written = WriteTextFile(*path, JsonText(json));
      if (!written.ok()) return output_.Fail(written.error());
    }
    if (const auto trace = options_.Get("trace")) {
      const Status written = WriteTrace(what_if.trace, {}, *trace);
      if (!written.ok()) return output_.Fail(written.error());
    }
    return ExitCode::kDone;
  }

  const Options& options_;
  const VerbOutput& output_;
  std::vector<WorkScale> scales_;
  std::optional<Cluster> cluster_, traced_on_;
  OpenedWork opened_;
  std::vector<std::string> warnings_;
};

constexpr std::string_view kOwn[] = {"graph-step", "scale", "traced-on"};
constexpr std::string_view kShared[] = {"graph", "cluster", "trace", "json", "help"};

bool IsOneOf(std::string_view name, auto& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

OptionGroup GraphOptions() {
  return {
      "A traced iteration in place of a model: what if (with --cluster, --trace, --json)",
      {{"graph", "TRACE",
        "a profile of PyTorch (.json, .json.gz) or Chakra traces (.et); several ranks: a "
        "folder, or names with commas between them"},
       StepOption("graph-step"),
       {"scale", "KIND=FACTOR",
        "durations of a kind of task (collective, host ...), of operator (gemm, all_reduce "
        "...) or of a phase (backward ...), times FACTOR. May be repeated",
        /*repeats=*/true},
       Reads({"traced-on", "NAME|FILE",
              "the cluster that was traced, to replay on --cluster: times follow what differs"})}};
}

Status CheckGraphOptions(const Options& options) {
  for (const Option& option : options.given()) {
    if (options.Has("graph")) {
      if (IsOneOf(option.name, kOwn) || IsOneOf(option.name, kShared)) continue;
      return OptionError(option.name, "has no meaning with --graph");
    }
    if (IsOneOf(option.name, kOwn)) return OptionError(option.name, "needs --graph");
  }
  const auto trace = options.Get("trace");
  if (!options.Has("graph") || !trace) return Unit{};
  if (IsChakraName(*trace)) {
    return OptionError("trace",
                       "Chakra's .et is written of simulated models only: it has no place for the "
                       "gaps between a traced iteration's tasks, nor for tasks of one stream that "
                       "overlap; .json (Chrome), .pftrace (Perfetto) and .pb (Twinstep) have");
  }
  return CheckTraceName(*trace);
  return Unit{};
}

ExitCode RunGraphCommand(const Options& options, const VerbOutput& output) {
  return Command(options, output).Run();
}

}  // namespace twinstep
